#include "models/network/torch_objective.hpp"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "kernels/base/random.hpp"
#include "models/files/file.hpp"
#include "models/files/model_file.hpp"
#include "models/heap.hpp"
#include "models/network/network_objective.hpp"
#include "models/network_loader.hpp"

namespace grapevine {
namespace {

constexpr size_t kTestBatch = 250;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

using Named = std::vector<std::pair<std::string, at::Tensor>>;

at::ScalarType type_of(DType dtype) { return dtype == DType::f64 ? at::kDouble : at::kFloat; }

bool is_trained(const at::Tensor& t) { return t.defined() && t.requires_grad(); }
bool is_statistic(const at::Tensor& t) { return t.defined() && t.is_floating_point(); }

/// The trained parameters, each once.
Named trained(const TorchNetwork& network) {
  Named found;
  for (const auto& [name, tensor] : network.parameters) {
    const auto same = [&](const auto& other) { return other.second.is_same(tensor); };
    if (is_trained(tensor) && std::none_of(found.begin(), found.end(), same))
      found.emplace_back(name, tensor);
  }
  return found;
}

/// Other saved tensors: fixed parameters, and buffers.
Named kept(const TorchNetwork& network, bool statistics) {
  Named found;
  for (const auto& [name, tensor] : network.buffers)
    if (tensor.defined() && is_statistic(tensor) == statistics) found.emplace_back(name, tensor);
  if (statistics) return found;
  for (const auto& [name, tensor] : network.parameters)
    if (tensor.defined() && !tensor.requires_grad()) found.emplace_back(name, tensor);
  return found;
}

std::vector<at::Tensor> tensors_of(const Named& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named)
    tensors.push_back(tensor);
  return tensors;
}

/// fp64 if one of them is.
ParameterLayout layout_of(const Named& named, bool all_decay) {
  const bool is_wide = std::any_of(named.begin(), named.end(), [](const auto& n) {
    return n.second.scalar_type() == at::kDouble;
  });
  ParameterLayout layout(is_wide ? DType::f64 : DType::f32);
  for (const auto& [name, tensor] : named)
    layout.add(name, tensor.sizes().vec(), all_decay || tensor.dim() > 1);
  return layout;
}

/// In the order and the type of layout_of().
Buffer values_of(const Named& named) {
  const c10::NoGradGuard no_gradients;
  const ParameterLayout layout = layout_of(named, true);
  Buffer values(layout.size(), layout.dtype());
  for (size_t k = 0; k < named.size(); ++k) {
    const ParameterEntry& entry = layout.entries()[k];
    const at::Tensor flat = named[k].second.detach().to(at::kCPU, type_of(layout.dtype()));
    const Vec to = values.vec().part(entry.offset, entry.size());
    if (entry.size() > 0) std::memcpy(to.data, flat.contiguous().const_data_ptr(), to.bytes());
  }
  return values;
}

bool are_equal(const Buffer& a, const Buffer& b) {
  return a.size() == b.size() && a.dtype() == b.dtype() &&
         std::memcmp(a.vec().data, b.vec().data, a.vec().bytes()) == 0;
}

/// The type for files and PyTorch; `other`: there is no such type.
TensorType type_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return TensorType::f32;
    case at::kDouble: return TensorType::f64;
    case at::kHalf: return TensorType::f16;
    case at::kBFloat16: return TensorType::bf16;
    case at::kLong: return TensorType::i64;
    case at::kInt: return TensorType::i32;
    case at::kShort: return TensorType::i16;
    case at::kChar: return TensorType::i8;
    case at::kByte: return TensorType::u8;
    case at::kBool: return TensorType::boolean;
    default: return TensorType::other;
  }
}

/// Classes of all training samples, for partitions by label; empty: the targets are no classes.
std::vector<uint16_t> labels_of(const TorchData& data) {
  std::vector<uint16_t> labels;
  std::vector<uint32_t> rows(kTestBatch);
  for (size_t first = 0; first < data.size; first += rows.size()) {
    rows.resize(std::min(kTestBatch, data.size - first));
    std::iota(rows.begin(), rows.end(), static_cast<uint32_t>(first));
    const at::Tensor targets = data.batch(rows).targets;
    if (targets.dim() != 1 || !at::isIntegralType(targets.scalar_type(), false)) return {};
    const at::Tensor classes = targets.to(at::kLong).contiguous();
    for (int64_t k = 0; k < classes.numel(); ++k) {
      const int64_t label = classes.const_data_ptr<int64_t>()[k];
      if (label < 0 || label > std::numeric_limits<uint16_t>::max()) return {};
      labels.push_back(static_cast<uint16_t>(label));
    }
  }
  return labels;
}

/// Copies batches to a GPU through pinned memory, which grows to the largest batch.
class Staged {
 public:
  /// A tensor on the network's device. A tensor on a GPU is not staged.
  at::Tensor brought(const at::Tensor& given, at::Device device) {
    if (device.is_cpu() || !given.defined()) return given;
    if (!given.device().is_cpu()) return given.to(device, true);
    const at::Tensor host = given.is_non_overlapping_and_dense() ? given : given.contiguous();
    if (!pinned_.defined() || pinned_.scalar_type() != host.scalar_type() ||
        pinned_.numel() < host.numel())
      pinned_ = at::empty({host.numel()}, host.options().pinned_memory(true));
    const at::Tensor here = pinned_.as_strided(host.sizes(), host.strides());
    here.copy_(host);
    return here.to(device, true);
  }

 private:
  at::Tensor pinned_;
};

class Instance final : public NetworkInstance {
 public:
  /// The references must outlive it.
  Instance(const ObjectiveSpec& spec, const TorchTask& task, TorchNetwork network,
           const ParameterLayout& layout, const ParameterLayout& statistics, Batches batches)
      : NetworkInstance(FlatParameters(layout, tensors_of(trained(network))),
                        tensors_of(kept(network, true)), statistics, std::move(batches)),
        spec_(spec),
        task_(task),
        network_(std::move(network)) {}

  const TorchNetwork& network() const { return network_; }

  struct Judged {
    Outcome outcome;
    bool classes = true;  // the targets are classes
  };
  Judged test(const TorchData& data, std::span<const uint32_t> rows) {
    const c10::NoGradGuard no_gradients;
    const TorchBatch batch = there(data.batch(rows));
    const at::Tensor outputs = network_.forward(batch.inputs);
    Judged judged;
    const double n = static_cast<double>(rows.size());
    judged.outcome.loss_sum = task_.loss(outputs, batch.targets).item<double>() * n;
    judged.classes = batch.targets.dim() == 1 && outputs.dim() == 2 &&
                     at::isIntegralType(batch.targets.scalar_type(), false);
    if (judged.classes)
      judged.outcome.right =
          static_cast<double>(outputs.argmax(1).eq(batch.targets).sum().item<int64_t>());
    return judged;
  }

 private:
  at::Tensor batch_loss(int rank, uint64_t index, const std::vector<uint32_t>& rows) override {
    const TorchBatch batch = there(task_.train.batch(rows));
    if (spec_.threads == 1) {
      Random draws(spec_.seed, static_cast<uint32_t>(rank), Purpose::augmentation, index);
      at::manual_seed(draws.bits());
    }
    return task_.loss(network_.forward(batch.inputs), batch.targets);
  }

  void train(bool now) override {
    if (network_.train) network_.train(now);
  }

  // Tensors that are neither trained nor statistics.
  void moved() override {
    for (auto& [name, tensor] : kept(network_, false))
      tensor.set_data(tensor.detach().to(device()));
  }

  TorchBatch there(const TorchBatch& batch) {
    return {inputs_.brought(batch.inputs, device()), targets_.brought(batch.targets, device())};
  }

  const ObjectiveSpec& spec_;
  const TorchTask& task_;
  TorchNetwork network_;
  Staged inputs_, targets_;
};

class TorchObjective final : public NetworkObjective {
 public:
  TorchObjective(const ObjectiveSpec& spec, TorchTask task, std::vector<TorchNetwork> networks,
                 Dealt dealt)
      : NetworkObjective(spec, {layout_of(trained(networks[0]), task.decay_norms_and_biases),
                                layout_of(kept(networks[0], true), false),
                                values_of(kept(networks[0], true)), std::move(dealt)}),
        task_(std::move(task)),
        start_(values_of(trained(networks[0]))) {
    for (TorchNetwork& network : networks)
      add(std::make_unique<Instance>(this->spec(), task_, std::move(network), layout(),
                                     statistics(), batches()));
  }

  void initial_point(int, Vec x) const override {
    GV_CHECK(x.bytes() == start_.vec().bytes());
    std::memcpy(x.data, start_.vec().data, x.bytes());
  }

  Evaluation evaluate(int thread, int rank, ConstVec x) override {
    std::vector<uint32_t> all(task_.test.size);
    std::iota(all.begin(), all.end(), 0u);
    return test(thread, rank, x, task_.test, all);
  }

  Evaluation validate(int thread, int rank, ConstVec x) override {
    return test(thread, rank, x, task_.train, dealt().aside);
  }

  std::vector<std::vector<uint64_t>> label_counts() const override {
    std::vector<uint16_t> labels;
    in_words([&] { labels = labels_of(task_.train); });
    if (labels.empty()) return {};
    return dealt().partition->label_counts(labels,
                                           1 + *std::max_element(labels.begin(), labels.end()));
  }

  std::string description() const override {
    return task_.name + " (" + with_commas(layout().size()) + " parameters) on " +
           with_commas(task_.train.size) + " + " + with_commas(task_.test.size) + " " +
           task_.train.name + aside_text(dealt().aside);
  }

  Status save_model(const std::string& directory, ConstVec x) override {
    const TorchNetwork& network = instance_of<Instance>(0).network();
    std::vector<ModelTensor> tensors = grapevine::tensors_of(layout(), x);
    add_tied(network, tensors);
    std::vector<at::Tensor> copies;  // owns the data that `tensors` points to
    const auto add = [&](const std::string& name, const at::Tensor& tensor) {
      copies.push_back(tensor.detach().to(at::kCPU).contiguous());
      tensors.push_back({name, tensor.sizes().vec(), type_of(tensor.scalar_type()),
                         copies.back().const_data_ptr()});
    };
    const Buffer average = running().average();
    const Named statistic = kept(network, true);
    for (size_t k = 0; k < statistic.size(); ++k) {
      const ParameterEntry& entry = statistics().entries()[k];
      const ConstVec values = average.vec().part(entry.offset, entry.size());
      const at::Tensor view = at::from_blob(const_cast<void*>(values.data), entry.shape,
                                            at::TensorOptions(type_of(values.dtype)));
      add(entry.name, view.to(statistic[k].second.scalar_type()));
    }
    for (const auto& [name, tensor] : kept(network, false)) {
      const bool counts = name.ends_with("num_batches_tracked") && tensor.numel() == 1;
      // The tensor's value is not read: other threads may compute.
      add(name, counts ? at::full(tensor.sizes(), running().most_gradients(), at::kLong) : tensor);
    }
    if (Status ok = write_safetensors(directory + "/model.safetensors", tensors); !ok) return ok;
    return write_state_dict(directory + "/model.pt", tensors);
  }

 private:
  /// Adds a parameter that has several names once more under each further name.
  static void add_tied(const TorchNetwork& network, std::vector<ModelTensor>& tensors) {
    const Named once = trained(network);
    for (const auto& [name, tensor] : network.parameters) {
      if (!is_trained(tensor)) continue;
      const auto first = std::find_if(once.begin(), once.end(), [&](const auto& other) {
        return other.second.is_same(tensor);
      });
      if (first->first == name) continue;
      ModelTensor again = tensors[static_cast<size_t>(first - once.begin())];
      again.name = name;
      tensors.push_back(std::move(again));
    }
  }

  // NaN: there are no samples.
  Evaluation test(int thread, int rank, ConstVec x, const TorchData& data,
                  std::span<const uint32_t> which) {
    if (which.empty()) return {kNone, kNone};
    Instance::Outcome sum;
    bool classes = true;
    in_words([&] {
      Instance& instance = looking_at<Instance>(x, thread, rank);
      for (size_t first = 0; first < which.size(); first += kTestBatch) {
        const auto rows = which.subspan(first, std::min(kTestBatch, which.size() - first));
        const Instance::Judged judged = instance.test(data, rows);
        sum += judged.outcome;
        classes = classes && judged.classes;
      }
    });
    Evaluation found = sum.over(which.size());
    if (!classes) found.accuracy = kNone;
    return found;
  }

  void try_out() override {
    for (const TorchData* data : {&task_.train, &task_.test})
      if (data->size > 0) test(0, 0, start_.vec(), *data, std::vector<uint32_t>{0});
  }

  const TorchTask task_;
  const Buffer start_;
};

Status check_task(const ObjectiveSpec& spec, const TorchTask& task) {
  if (!task.make || !task.loss || !task.train.batch)
    return user_error("a TorchTask needs make, loss and training samples");
  if (task.test.size > 0 && !task.test.batch) return user_error("the test samples have no batch");
  if (spec.ranks < 1 || spec.threads < 1)
    return user_error("ranks and threads are " + std::to_string(spec.ranks) + " and " +
                      std::to_string(spec.threads) + ", accepted: 1 or more of both");
  if (Status fits = check_gradients(spec); !fits) return fits;
  const size_t most = std::min<size_t>(task.train.size, std::numeric_limits<int32_t>::max());
  if (spec.batch >= 1 && static_cast<size_t>(spec.batch) <= most &&
      task.train.size <= size_t{std::numeric_limits<uint32_t>::max()})
    return Done{};
  return user_error("batch is " + std::to_string(spec.batch) + ", accepted: 1 to " +
                    with_commas(most) + ", the number of samples");
}

Status check_network(const TorchNetwork& network) {
  if (!network.forward) return user_error("the network has no forward");
  const Named parameters = trained(network);
  if (parameters.empty()) return user_error("the network has no parameters that need a gradient");
  for (const auto& [name, tensor] : parameters) {
    if (tensor.scalar_type() == at::kFloat && tensor.device().is_cpu() && tensor.is_leaf())
      continue;
    return user_error("parameter " + name + " is " + c10::toString(tensor.scalar_type()) + " on " +
                      tensor.device().str() + ", accepted: fp32 on the CPU");
  }
  for (const bool statistics : {true, false})
    for (const auto& [name, tensor] : kept(network, statistics))
      if (type_of(tensor.scalar_type()) == TensorType::other)
        return user_error("buffer " + name + " is " + c10::toString(tensor.scalar_type()) +
                          ", accepted: floats, whole numbers and booleans");
  return Done{};
}

/// Finds a mismatch here, before the run.
void try_out(const TorchNetwork& network, const TorchTask& task) {
  const c10::NoGradGuard no_gradients;
  if (network.train) network.train(false);
  for (const TorchData* data : {&task.train, &task.test}) {
    const std::vector<uint32_t> rows{0, static_cast<uint32_t>(data->size - 1)};
    if (data->size == 0) continue;
    const TorchBatch batch = data->batch(rows);
    const at::Tensor loss = task.loss(network.forward(batch.inputs), batch.targets);
    if (loss.numel() != 1)
      throw std::runtime_error("the loss has " + std::to_string(loss.numel()) +
                               " numbers, accepted: one");
  }
}

Result<std::unique_ptr<Objective>> make(const ObjectiveSpec& spec, TorchTask task) {
  // Also for threads that start later; results then do not depend on a split.
  at::set_num_threads(1);
  std::vector<TorchNetwork> networks;
  for (int thread = 0; thread < spec.threads + spec.has_tester; ++thread) {
    at::manual_seed(spec.seed);
    networks.push_back(task.make());
    if (Status fits = check_network(networks.back()); !fits) return fits.error();
    if (thread == 0) try_out(networks[0], task);
    if (networks.back().train) networks.back().train(true);
    const Named first = trained(networks[0]), own = trained(networks.back());
    if (!are_equal(values_of(first), values_of(own)) ||
        layout_of(first, true).hash() != layout_of(own, true).hash())
      return user_error("make gives networks that differ, accepted: equal ones each time");
  }
  const bool by_label =
      spec.partition != "auto" && spec.partition != "iid" && spec.partition != "contiguous";
  const std::vector<uint16_t> labels = by_label ? labels_of(task.train) : std::vector<uint16_t>();
  auto dealt = deal(spec.partition == "auto" ? "iid" : spec.partition,
                    static_cast<uint32_t>(task.train.size), labels, spec.ranks, spec.seed,
                    spec.validation_split);
  if (!dealt) return dealt.error();
  return std::unique_ptr<Objective>(std::make_unique<TorchObjective>(
      spec, std::move(task), std::move(networks), std::move(*dealt)));
}

}  // namespace

TorchData TorchData::of(at::Tensor inputs, at::Tensor targets) {
  TorchData data;
  const bool fit = inputs.defined() && targets.defined() && inputs.dim() > 0 && targets.dim() > 0 &&
                   inputs.size(0) == targets.size(0);
  if (!fit) return data;  // no samples, which make_torch_objective refuses
  data.size = static_cast<size_t>(inputs.size(0));
  data.batch = [inputs = std::move(inputs),
                targets = std::move(targets)](std::span<const uint32_t> rows) {
    at::Tensor which = at::empty({static_cast<int64_t>(rows.size())}, at::kLong);
    std::copy(rows.begin(), rows.end(), which.mutable_data_ptr<int64_t>());
    return TorchBatch{inputs.index_select(0, which), targets.index_select(0, which)};
  };
  return data;
}

TorchData TorchData::of(std::shared_ptr<const DataSet> set, bool test) {
  TorchData data;
  const Samples& samples = test ? set->test : set->train;
  data.size = samples.count();
  data.name = set->name;
  data.batch = [set, &samples, gatherer = Gatherer(*set)](std::span<const uint32_t> rows) {
    const SampleShape& shape = samples.shape;
    const int64_t n = static_cast<int64_t>(rows.size());
    const int64_t c = shape.channels, h = shape.height, w = shape.width;
    at::Tensor inputs = shape.image ? at::empty({n, h, w, c}) : at::empty({n, c});
    at::Tensor targets = at::empty({n}, at::kLong);
    float* const first_input = inputs.mutable_data_ptr<float>();
    int64_t* const first_target = targets.mutable_data_ptr<int64_t>();
    for (size_t k = 0; k < rows.size(); ++k) {
      gatherer.gather(samples, rows[k], {}, first_input + k * shape.size());
      first_target[k] = samples.labels[rows[k]];
    }
    return TorchBatch{shape.image ? inputs.permute({0, 3, 1, 2}) : inputs, targets};
  };
  return data;
}

at::Tensor cross_entropy(const at::Tensor& scores, const at::Tensor& classes) {
  return at::cross_entropy_loss(scores, classes.to(at::kLong));
}

at::Tensor mean_square(const at::Tensor& outputs, const at::Tensor& targets) {
  return at::mse_loss(outputs.view_as(targets), targets.to(outputs.scalar_type()));
}

Result<std::unique_ptr<Objective>> make_torch_objective(const ObjectiveSpec& spec, TorchTask task) {
  if (Status fits = check_task(spec, task); !fits) return fits.error();
  prepare_heap();
  try {
    return make(spec, std::move(task));
  } catch (const std::exception& error) {
    return user_error("the network cannot be made: " + one_line_of(error));
  }
}

}  // namespace grapevine
