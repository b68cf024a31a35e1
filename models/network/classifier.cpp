#include <algorithm>

#include "models/data/file.hpp"
#include "models/model_file.hpp"
#include "models/network/gpu.hpp"
#include "models/network/objectives.hpp"
#include "models/network/replica.hpp"
#include "models/network/running_statistics.hpp"

namespace grapevine {
namespace {

constexpr size_t kTestBatch = 250;

std::vector<float> start_of(const NetworkPlan& plan) {
  std::vector<float> start(plan.statistics_size, 0.0f);
  for (const NormStatistics& norm : plan.norms)
    std::fill_n(start.begin() + static_cast<std::ptrdiff_t>(norm.offset + norm.channels),
                norm.channels, 1.0f);
  return start;
}

class Classifier final : public Objective {
 public:
  Classifier(const ObjectiveSpec& spec, NetworkInputs&& inputs)
      : spec_(spec),
        plan_(std::move(inputs.plan)),
        data_(std::move(inputs.data)),
        dealt_(std::move(inputs.dealt)),
        gatherer_(*data_),
        statistics_(spec.ranks, start_of(plan_)) {
    const Batches batches(dealt_.partition, spec.seed, spec.batch);
    for (int thread = 0; thread < spec.threads + spec.has_tester; ++thread)
      replicas_.emplace_back(plan_, batches, largest_batch());
    for (const NormStatistics& norm : plan_.norms) {
      GV_CHECK(norm.offset == statistics_layout_.size());
      const std::vector<int64_t> shape = {static_cast<int64_t>(norm.channels)};
      statistics_layout_.add(norm.name + ".running_mean", shape, false);
      statistics_layout_.add(norm.name + ".running_var", shape, false);
    }
  }

  const ParameterLayout& layout() const override { return plan_.layout; }
  void initial_point(int, Vec x) const override { initial_weights(plan_, spec_.seed, x); }

  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override {
    Replica& replica = replica_of(thread);
    const size_t count = gather(replica, rank, index);
    const double loss = checked([&] { return replica.gradient(count, x, g, spec_.clip); });
    statistics_.store(rank, replica.statistics());
    return loss;
  }

  Status use_gpu(int number) override {
    if (Status found = find_gpu(number); !found) return found;
    gpu_ = number;
    const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(number));
    std::vector<Replica> there;
    for (const Replica& replica : replicas_)
      there.emplace_back(plan_, replica.batches(), largest_batch(), device);
    replicas_ = std::move(there);
    return Done{};
  }

  void queue_gradient(int thread, void* stream, int rank, uint64_t index, ConstVec x, Vec g,
                      double* loss) override {
    const OnStream here(gpu_, stream);
    Replica& replica = replica_of(thread);
    const size_t count = gather(replica, rank, index);
    checked([&] { replica.queue_gradient(count, x, g, spec_.clip, loss); });
  }

  void gradient_came(int thread, int rank) override {
    if (gpu_ >= 0) statistics_.store(rank, replica_of(thread).statistics());
  }

  const ParameterLayout& statistics() const override { return statistics_layout_; }

  void read_statistics(int rank, Vec out) const override { statistics_.load(rank, out); }

  void set_average_statistics(ConstVec average) override { statistics_.set_average(average); }

  void set_statistics(int rank, uint64_t gradients, ConstVec now) override {
    statistics_.set(rank, gradients, now);
  }

  Evaluation evaluate(int thread, int rank, ConstVec x) override {
    const auto row = [](size_t k) { return static_cast<uint32_t>(k); };
    return test(replica_of(thread), rank, x, data_->test, data_->test.count(), row);
  }

  Evaluation validate(int thread, int rank, ConstVec x) override {
    const auto row = [this](size_t k) { return dealt_.aside[k]; };
    return test(replica_of(thread), rank, x, data_->train, dealt_.aside.size(), row);
  }

  uint64_t gradients_per_pass(int rank) const override {
    return dealt_.gradients_per_pass(rank, spec_.batch);
  }

  Status go_on_in_data(const std::vector<DataCut>& cuts) override {
    const auto batches_of = [](Replica & r) -> auto& { return r.batches(); };
    return go_on_after(cuts, dealt_, spec_.ranks, spec_.seed, replicas_, batches_of);
  }

  std::vector<std::vector<uint64_t>> label_counts() const override {
    return dealt_.partition->label_counts(data_->train.labels, data_->classes);
  }

  std::string description() const override {
    return plan_.model + " (" + with_commas(plan_.layout.size()) + " parameters) on " +
           data_->description() + aside_text(dealt_.aside);
  }

  Status save_model(const std::string& directory, ConstVec x) override {
    std::vector<ModelTensor> tensors = tensors_of(plan_.layout, x);
    const std::vector<float> running = statistics_.average();
    const int64_t batches_tracked = statistics_.most_gradients();
    for (const NormStatistics& norm : plan_.norms) {
      const std::vector<int64_t> shape = {static_cast<int64_t>(norm.channels)};
      const float* mean = running.data() + norm.offset;
      tensors.push_back({norm.name + ".running_mean", shape, TensorType::f32, mean});
      tensors.push_back({norm.name + ".running_var", shape, TensorType::f32, mean + shape[0]});
      tensors.push_back(
          {norm.name + ".num_batches_tracked", {}, TensorType::i64, &batches_tracked});
    }
    if (Status ok = write_safetensors(directory + "/model.safetensors", tensors); !ok) return ok;
    return write_state_dict(directory + "/model.pt", tensors);
  }

 private:
  Replica& replica_of(int thread) {
    GV_CHECK(thread >= 0);
    GV_CHECK(static_cast<size_t>(thread) < replicas_.size());
    return replicas_[static_cast<size_t>(thread)];
  }

  size_t largest_batch() const { return std::max(kTestBatch, static_cast<size_t>(spec_.batch)); }

  // The samples of a gradient, and the rank's statistics. Returns how many.
  size_t gather(Replica& replica, int rank, uint64_t index) {
    const std::vector<uint32_t>& rows = replica.batches().rows(rank, index);
    const std::vector<Augmentation> shown =
        training_augmentations(*data_, spec_.flip, spec_.seed, rank, index, spec_.batch);
    for (size_t k = 0; k < rows.size(); ++k) {
      gatherer_.gather(data_->train, rows[k], shown[k], replica.input(k));
      replica.label(k) = data_->train.labels[rows[k]];
    }
    statistics_.load(rank, replica.statistics());
    return rows.size();
  }

  // NaN without samples.
  template <class Row>
  Evaluation test(Replica& replica, int rank, ConstVec x, const Samples& samples, size_t total,
                  Row&& row) {
    statistics_.load(rank, replica.statistics());
    checked([&] { replica.look_at(x); });
    Replica::Outcome sum;
    for (size_t first = 0; first < total; first += kTestBatch) {
      const size_t count = std::min(kTestBatch, total - first);
      for (size_t k = 0; k < count; ++k) {
        gatherer_.gather(samples, row(first + k), {}, replica.input(k));
        replica.label(k) = samples.labels[row(first + k)];
      }
      const Replica::Outcome part = checked([&] { return replica.test(count); });
      sum.loss_sum += part.loss_sum;
      sum.right += part.right;
    }
    const double n = static_cast<double>(total);
    return {sum.loss_sum / n, static_cast<double>(sum.right) / n};
  }

  const ObjectiveSpec spec_;
  const NetworkPlan plan_;
  const std::shared_ptr<const DataSet> data_;
  const Dealt dealt_;
  const Gatherer gatherer_;
  ParameterLayout statistics_layout_{DType::f32};
  std::vector<Replica> replicas_;  // per thread
  RunningStatistics statistics_;
  int gpu_ = -1;  // none
};

}  // namespace

std::unique_ptr<Objective> make_classifier(const ObjectiveSpec& spec, NetworkInputs&& inputs) {
  return std::make_unique<Classifier>(spec, std::move(inputs));
}

}  // namespace grapevine
