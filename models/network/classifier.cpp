// The zoo's networks on the data sets in the registry.
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>

#include "models/files/file.hpp"
#include "models/files/model_file.hpp"
#include "models/network/network_objective.hpp"
#include "models/network/networks.hpp"
#include "models/network/objectives.hpp"
#include "models/network/prefetcher.hpp"

namespace grapevine {
namespace {

constexpr size_t kTestBatch = 250;

Buffer start_of(const NetworkPlan& plan) {
  Buffer start(plan.statistics_size, DType::f32);
  for (const NormStatistics& norm : plan.norms)
    std::fill_n(start.vec().as<float>() + norm.offset + norm.channels, norm.channels, 1.0f);
  return start;
}

ParameterLayout statistics_of(const NetworkPlan& plan) {
  ParameterLayout layout(DType::f32);
  for (const NormStatistics& norm : plan.norms) {
    GV_CHECK(norm.offset == layout.size());
    const std::vector<int64_t> shape = {static_cast<int64_t>(norm.channels)};
    layout.add(norm.name + ".running_mean", shape, false);
    layout.add(norm.name + ".running_var", shape, false);
  }
  return layout;
}

std::vector<at::Tensor> tensors_of(const ParameterLayout& layout) {
  std::vector<at::Tensor> tensors;
  for (const ParameterEntry& entry : layout.entries())
    tensors.push_back(at::zeros(entry.shape));
  return tensors;
}

/// The data that instances share.
struct Task {
  const ObjectiveSpec& spec;
  const NetworkPlan& plan;
  const DataSet& data;
  const ParameterLayout& statistics;
};

class Instance final : public NetworkInstance {
 public:
  Instance(const Task& task, Batches batches)
      : Instance(task, std::move(batches), tensors_of(task.statistics)) {}

  /// Tests `count` samples of `samples`: row(0), row(1), ...
  template <class Row>
  Outcome test(const Samples& samples, size_t count, Row&& row) {
    const c10::NoGradGuard no_gradients;
    HostBatch& here = held_[present_];
    here.rows.clear();  // no gradient's batch any more
    for (size_t k = 0; k < count; ++k)
      show(here, k, samples, row(k), {});
    const at::Tensor logits = forward(plan_, {parameters(), running_, false}, images(here, count));
    const at::Tensor labels = brought(here.first_labels(count));
    const at::Tensor right = logits.argmax(1).eq(labels).sum();
    const double loss = at::cross_entropy_loss(logits, labels).item<double>();
    return {loss * static_cast<double>(count), static_cast<double>(right.item<int64_t>())};
  }

 private:
  /// Samples in host memory, and of which gradient they are.
  struct HostBatch {
    at::Tensor input, labels;
    // The memory of these two. Asking a tensor checks much, and this is done for each sample.
    float* first_input = nullptr;
    int64_t* first_label = nullptr;
    int rank = -1;
    uint64_t index = 0;
    std::vector<uint32_t> rows;

    bool is(int of_rank, uint64_t of_index, const std::vector<uint32_t>& of_rows) const {
      return rank == of_rank && index == of_index && rows == of_rows;
    }
    at::Tensor first_labels(size_t count) const {
      return labels.narrow(0, 0, static_cast<int64_t>(count));
    }
  };

  Instance(const Task& task, Batches batches, const std::vector<at::Tensor>& running)
      : NetworkInstance(FlatParameters(task.plan.layout), running, task.statistics,
                        std::move(batches)),
        spec_(task.spec),
        plan_(task.plan),
        data_(task.data),
        gatherer_(task.data),
        running_(running) {
    moved();
  }

  at::Tensor batch_loss(int rank, uint64_t index, const std::vector<uint32_t>& rows) override {
    prefetcher_.wait();
    if (held_[1 - present_].is(rank, index, rows)) present_ = 1 - present_;
    HostBatch& here = held_[present_];
    const bool same_rank = here.rank == rank;
    if (!here.is(rank, index, rows)) gather(here, rank, index, rows);
    if (device().is_cuda() && same_rank) prefetch(rank, index + 1);
    const size_t count = here.rows.size();
    const at::Tensor logits = forward(plan_, {parameters(), running_, true}, images(here, count));
    return at::cross_entropy_loss(logits, brought(here.first_labels(count)));
  }

  void moved() override {
    prefetcher_.wait();
    held_ = {};
    make(held_[present_]);
  }

  void make(HostBatch& batch) const {
    const size_t largest = std::max(kTestBatch, static_cast<size_t>(spec_.batch));
    batch.input = host_memory(largest * plan_.input.size(), at::kFloat);
    batch.labels = host_memory(largest, at::kLong);
    batch.first_input = batch.input.mutable_data_ptr<float>();
    batch.first_label = batch.labels.mutable_data_ptr<int64_t>();
  }

  /// On a GPU a thread prepares the batch that this rank needs next, if it computes here again.
  /// The other batch in host memory is free: the gradient that it was for has come.
  void prefetch(int rank, uint64_t index) {
    if (!held_[1 - present_].input.defined()) make(held_[1 - present_]);
    prefetcher_.begin([this, rank, index, rows = batches().rows(rank, index)] {
      gather(held_[1 - present_], rank, index, rows);
    });
  }

  void gather(HostBatch& to, int rank, uint64_t index, const std::vector<uint32_t>& rows) const {
    const std::vector<Augmentation> shown =
        training_augmentations(data_, spec_.flip, spec_.seed, rank, index, spec_.batch);
    for (size_t k = 0; k < rows.size(); ++k)
      show(to, k, data_.train, rows[k], shown[k]);
    to.rank = rank, to.index = index, to.rows = rows;
  }

  void show(HostBatch& to, size_t k, const Samples& samples, uint32_t row,
            const Augmentation& how) const {
    gatherer_.gather(samples, row, how, to.first_input + k * plan_.input.size());
    to.first_label[k] = samples.labels[row];
  }

  at::Tensor images(const HostBatch& from, size_t count) const {
    const int64_t n = static_cast<int64_t>(count);
    GV_CHECK(n <= from.labels.numel());
    const int64_t c = plan_.input.channels, h = plan_.input.height, w = plan_.input.width;
    if (!plan_.input.image) return brought(from.input.as_strided({n, c}, {c, 1}));
    return brought(from.input.as_strided({n, c, h, w}, {h * w * c, 1, w * c, c}));
  }

  const ObjectiveSpec& spec_;
  const NetworkPlan& plan_;
  const DataSet& data_;
  const Gatherer gatherer_;
  const std::vector<at::Tensor> running_;
  std::array<HostBatch, 2> held_;  // the present gradient's, and the next one's
  size_t present_ = 0;
  Prefetcher prefetcher_;  // last: it ends before what it uses
};

class Classifier final : public NetworkObjective {
 public:
  Classifier(const ObjectiveSpec& spec, NetworkInputs&& inputs)
      : NetworkObjective(spec, {inputs.plan.layout, statistics_of(inputs.plan),
                                start_of(inputs.plan), std::move(inputs.dealt)}),
        plan_(std::move(inputs.plan)),
        data_(std::move(inputs.data)) {
    const Task task{this->spec(), plan_, *data_, statistics()};
    for (int thread = 0; thread < spec.threads + spec.has_tester; ++thread)
      add(std::make_unique<Instance>(task, batches()));
  }

  void initial_point(int, Vec x) const override { initial_weights(plan_, spec().seed, x); }

  Evaluation evaluate(int thread, int rank, ConstVec x) override {
    const auto row = [](size_t k) { return static_cast<uint32_t>(k); };
    return test(looking_at<Instance>(x, thread, rank), data_->test, data_->test.count(), row);
  }

  Evaluation validate(int thread, int rank, ConstVec x) override {
    const auto row = [this](size_t k) { return dealt().aside[k]; };
    return test(looking_at<Instance>(x, thread, rank), data_->train, dealt().aside.size(), row);
  }

  std::vector<std::vector<uint64_t>> label_counts() const override {
    return dealt().partition->label_counts(data_->train.labels, data_->classes);
  }

  std::string description() const override {
    return plan_.model + " (" + with_commas(plan_.layout.size()) + " parameters) on " +
           data_->description() + aside_text(dealt().aside);
  }

  Status save_model(const std::string& directory, ConstVec x) override {
    std::vector<ModelTensor> tensors = grapevine::tensors_of(plan_.layout, x);
    const Buffer average = running().average();
    const int64_t batches_tracked = running().most_gradients();
    for (const NormStatistics& norm : plan_.norms) {
      const std::vector<int64_t> shape = {static_cast<int64_t>(norm.channels)};
      const float* mean = average.vec().as<float>() + norm.offset;
      tensors.push_back({norm.name + ".running_mean", shape, TensorType::f32, mean});
      tensors.push_back({norm.name + ".running_var", shape, TensorType::f32, mean + shape[0]});
      tensors.push_back(
          {norm.name + ".num_batches_tracked", {}, TensorType::i64, &batches_tracked});
    }
    if (Status ok = write_safetensors(directory + "/model.safetensors", tensors); !ok) return ok;
    return write_state_dict(directory + "/model.pt", tensors);
  }

 private:
  // NaN: there are no samples.
  template <class Row>
  static Evaluation test(Instance& instance, const Samples& samples, size_t total, Row&& row) {
    NetworkInstance::Outcome sum;
    for (size_t first = 0; first < total; first += kTestBatch) {
      const size_t count = std::min(kTestBatch, total - first);
      sum += instance.test(samples, count, [&](size_t k) { return row(first + k); });
    }
    return sum.over(total);
  }

  const NetworkPlan plan_;
  const std::shared_ptr<const DataSet> data_;
};

}  // namespace

std::unique_ptr<Objective> make_classifier(const ObjectiveSpec& spec, NetworkInputs&& inputs) {
  return std::make_unique<Classifier>(spec, std::move(inputs));
}

}  // namespace grapevine
