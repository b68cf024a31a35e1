#include "models/warm_start.hpp"

#include <cstring>

namespace grapevine {
namespace {

class WarmStart final : public Objective {
 public:
  WarmStart(Buffer start, std::shared_ptr<Objective> of)
      : start_(std::move(start)), of_(std::move(of)) {}

  void initial_point(int, Vec x) const override {
    GV_CHECK(x.bytes() == start_.vec().bytes());
    std::memcpy(x.data, start_.vec().data, x.bytes());
  }

  bool starts_alike() const override { return true; }
  const ParameterLayout& layout() const override { return of_->layout(); }
  bool has_gradients() const override { return of_->has_gradients(); }
  bool has_workers() const override { return of_->has_workers(); }
  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override {
    return of_->gradient(thread, rank, index, x, g);
  }
  Status use_gpu(int number) override { return of_->use_gpu(number); }
  void use_host() override { of_->use_host(); }
  void queue_gradient(int thread, void* stream, int rank, uint64_t index, ConstVec x, Vec g,
                      double* loss) override {
    of_->queue_gradient(thread, stream, rank, index, x, g, loss);
  }
  void gradient_came(int thread, int rank) override { of_->gradient_came(thread, rank); }
  void lose_gpu() override { of_->lose_gpu(); }
  const ParameterLayout& statistics() const override { return of_->statistics(); }
  void read_statistics(int rank, Vec out) const override { of_->read_statistics(rank, out); }
  bool has_statistics(int rank) const override { return of_->has_statistics(rank); }
  void read_for_mean(int rank, Vec out) const override { of_->read_for_mean(rank, out); }
  void set_statistics(int rank, uint64_t gradients, ConstVec now) override {
    of_->set_statistics(rank, gradients, now);
  }
  void set_average_statistics(ConstVec average) override { of_->set_average_statistics(average); }
  Evaluation evaluate(int thread, int rank, ConstVec x) override {
    return of_->evaluate(thread, rank, x);
  }
  Evaluation validate(int thread, int rank, ConstVec x) override {
    return of_->validate(thread, rank, x);
  }
  Status can_write_on(const std::string& text) const override { return of_->can_write_on(text); }
  std::string write_on(int thread, ConstVec x, const std::string& text, size_t count,
                       uint64_t seed) override {
    return of_->write_on(thread, x, text, count, seed);
  }
  Status go_on_in_data(const std::vector<DataCut>& cuts) override {
    return of_->go_on_in_data(cuts);
  }
  uint64_t gradients_per_pass(int rank) const override { return of_->gradients_per_pass(rank); }
  std::vector<std::vector<uint64_t>> label_counts() const override { return of_->label_counts(); }
  uint64_t data_hash() const override { return of_->data_hash(); }
  std::string description() const override { return of_->description(); }
  Status save_model(const std::string& directory, ConstVec x) override {
    return of_->save_model(directory, x);
  }

 private:
  const Buffer start_;
  const std::shared_ptr<Objective> of_;
};

}  // namespace

std::shared_ptr<Objective> begun_at(Buffer start, std::shared_ptr<Objective> of) {
  GV_CHECK(start.size() == of->layout().size());
  GV_CHECK(start.dtype() == of->layout().dtype());
  return std::make_shared<WarmStart>(std::move(start), std::move(of));
}

}  // namespace grapevine
