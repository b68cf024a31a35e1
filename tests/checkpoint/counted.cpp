#include "tests/checkpoint/counted.hpp"

#include <map>

#include "actors/run/run.hpp"
#include "models/batches.hpp"
#include "tests/catch.hpp"

namespace grapevine::test {
namespace {

class Quadratics final : public Counted {
 public:
  Quadratics(const Settings& s, const std::string& partition)
      : of_(*make_objective(s)),
        ranks_(s.ranks),
        seed_(s.seed),
        dealt_(dealt_by(partition, s)),
        batches_(dealt_.partition, s.seed, kBatch),
        taken_(static_cast<size_t>(s.ranks)) {}

  const ParameterLayout& layout() const override { return of_->layout(); }
  void initial_point(int rank, Vec x) const override { of_->initial_point(rank, x); }
  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override {
    taken_[static_cast<size_t>(rank)][index] = batches_.rows(rank, index);
    return of_->gradient(thread, rank, index, x, g);
  }
  Evaluation evaluate(int thread, int rank, ConstVec x) override {
    return of_->evaluate(thread, rank, x);
  }
  uint64_t gradients_per_pass(int) const override { return kSamples / kBatch; }
  Status go_on_in_data(const std::vector<DataCut>& cuts) override {
    auto left = data_left(cuts, dealt_.among, ranks_, seed_);
    if (!left) return left.error();
    batches_.go_on_with(std::make_shared<const DataLeft>(std::move(*left)));
    return Done{};
  }
  std::string description() const override { return "counted"; }
  Status save_model(const std::string&, ConstVec) override { return Done{}; }

  std::vector<uint32_t> walked(int rank, uint64_t first, uint64_t to) const override {
    std::vector<uint32_t> rows;
    for (const auto& [index, batch] : taken_[static_cast<size_t>(rank)])
      if (index >= first && index < to) rows.insert(rows.end(), batch.begin(), batch.end());
    return rows;
  }
  const Partition& partition() const override { return *dealt_.partition; }

 private:
  static Dealt dealt_by(const std::string& partition, const Settings& s) {
    std::vector<uint16_t> labels(kSamples);
    for (size_t k = 0; k < kSamples; ++k)
      labels[k] = static_cast<uint16_t>(k % 7);
    auto made = deal(partition, kSamples, labels, s.ranks, s.seed, 0);
    REQUIRE(made);
    return std::move(*made);
  }

  std::shared_ptr<Objective> of_;
  int ranks_;
  uint64_t seed_;
  Dealt dealt_;
  Batches batches_;
  std::vector<std::map<uint64_t, std::vector<uint32_t>>> taken_;
};

}  // namespace

std::shared_ptr<Counted> make_counted(const Settings& s, const std::string& partition) {
  return std::make_shared<Quadratics>(s, partition);
}

}  // namespace grapevine::test
