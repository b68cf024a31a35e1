#include "models/network/network_objective.hpp"

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "kernels/base/check.hpp"
#include "kernels/base/mutex.hpp"
#include "models/network/gpu.hpp"
#include "models/walk.hpp"

namespace grapevine {

namespace {

at::Tensor flat_of(const ParameterLayout& layout, at::Device device, bool pinned) {
  const auto type = layout.dtype() == DType::f64 ? at::kDouble : at::kFloat;
  const auto options = at::TensorOptions(type).device(device).pinned_memory(pinned);
  return at::zeros({static_cast<int64_t>(layout.size())}, options);
}

/// While it exists, layers compute in bf16 where that does no harm. Their fp32 parameters are
/// rounded for the computation and do not change.
class InBf16 {
 public:
  explicit InBf16(at::DeviceType type)
      : type_(type), before_(at::autocast::is_autocast_enabled(type)) {
    at::autocast::set_autocast_dtype(type_, at::kBFloat16);
    at::autocast::set_autocast_enabled(type_, true);
    at::autocast::increment_nesting();
  }
  ~InBf16() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(type_, before_);
  }
  InBf16(const InBf16&) = delete;

 private:
  const at::DeviceType type_;
  const bool before_;
};

}  // namespace

std::string one_line_of(const std::exception& thrown) {
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&thrown);
  std::string text = of_torch != nullptr ? of_torch->what_without_backtrace() : thrown.what();
  // TorchScript prints the position in the program first, and the error last.
  if (const size_t at = text.rfind("RuntimeError: "); at != text.npos) text.erase(0, at + 14);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// --- the instance of one thread

NetworkInstance::NetworkInstance(FlatParameters parameters, std::vector<at::Tensor> statistics,
                                 const ParameterLayout& layout, Batches batches)
    : parameters_(std::move(parameters)),
      batches_(std::move(batches)),
      statistics_layout_(&layout),
      statistics_(std::move(statistics)) {
  GV_CHECK(statistics_.size() == layout.entries().size());
  place_statistics();
}

void NetworkInstance::move_to(at::Device device) {
  device_ = device;
  parameters_.move_to(device);
  place_statistics();
  moved();
}

void NetworkInstance::place_statistics() {
  here_ = flat_of(*statistics_layout_, at::kCPU, device_.is_cuda());
  there_ = device_.is_cpu() ? here_ : flat_of(*statistics_layout_, device_, false);
  for (size_t k = 0; k < statistics_.size(); ++k) {
    const ParameterEntry& entry = statistics_layout_->entries()[k];
    const int64_t first = static_cast<int64_t>(entry.offset);
    const int64_t size = static_cast<int64_t>(entry.size());
    statistics_[k].set_data(statistics_[k].scalar_type() == there_.scalar_type()
                                ? there_.narrow(0, first, size).view(entry.shape)
                                : statistics_[k].to(device_));
  }
}

// Statistics that are not views of the flat vector are copied separately.
void NetworkInstance::copy_statistics(bool up) {
  if (here_.numel() == 0) return;
  const c10::NoGradGuard no_gradients;
  const bool apart = !device_.is_cpu();
  if (up && apart) there_.copy_(here_, true);
  for (size_t k = 0; k < statistics_.size(); ++k) {
    if (statistics_[k].scalar_type() == there_.scalar_type()) continue;
    const ParameterEntry& entry = statistics_layout_->entries()[k];
    at::Tensor flat =
        there_.narrow(0, static_cast<int64_t>(entry.offset), static_cast<int64_t>(entry.size()));
    flat = flat.view(entry.shape);
    up ? statistics_[k].copy_(flat) : flat.copy_(statistics_[k]);
  }
  if (!up && apart) here_.copy_(there_, true);
}

at::Tensor NetworkInstance::host_memory(size_t size, at::ScalarType type) const {
  return at::zeros({static_cast<int64_t>(size)},
                   at::TensorOptions(type).pinned_memory(device_.is_cuda()));
}

at::Tensor NetworkInstance::brought(const at::Tensor& host) const {
  return device_.is_cpu() ? host : host.to(device_, true);
}

void NetworkInstance::queue_gradient(const ObjectiveSpec& spec, int rank, uint64_t index,
                                     ConstVec x, Vec g, double* loss) {
  const c10::WarningUtils::WarningHandlerGuard once(&warnings_);
  if (!std::exchange(trains_, true)) train(true);
  copy_statistics(true);
  parameters_.bind(x);
  at::Tensor mean;
  {
    std::optional<InBf16> rounds;
    if (spec.precision == kBf16) rounds.emplace(device_.type());
    mean = batch_loss(rank, index, batches_.rows(rank, index));
  }
  parameters_.gradient(mean, g, spec.clip);
  copy_statistics(false);
  if (device_.is_cpu()) {
    *loss = mean.item<double>();
  } else {
    const at::Tensor told = at::from_blob(loss, {}, at::TensorOptions(at::kDouble));
    told.copy_(mean.detach().to(at::kDouble), true);
  }
}

void NetworkInstance::look_at(ConstVec x) {
  if (std::exchange(trains_, false)) train(false);
  copy_statistics(true);
  if (device_.is_cpu()) return parameters_.bind(x);
  const c10::NoGradGuard no_gradients;
  tested_ = view_of(x.as<float>(), {static_cast<int64_t>(x.size)}).to(device_);
  parameters_.bind({tested_.const_data_ptr(), x.size, x.dtype});
}

// --- the objective

NetworkObjective::NetworkObjective(const ObjectiveSpec& spec, Parts parts)
    : spec_(spec),
      layout_(std::move(parts.layout)),
      statistics_layout_(std::move(parts.statistics_layout)),
      dealt_(std::move(parts.dealt)),
      statistics_(spec.ranks, parts.statistics) {}

// LibTorch records events on the streams that used pinned memory when that memory is freed. After
// the loss of the GPU this fails and ends the process. So the instances are never destroyed then.
NetworkObjective::~NetworkObjective() {
  static auto* const left_behind = new std::vector<std::unique_ptr<NetworkInstance>>;
  if (!is_lost_) return;
  static Mutex mutex;
  const Lock lock(mutex);
  std::move(instances_.begin(), instances_.end(), std::back_inserter(*left_behind));
}

NetworkInstance& NetworkObjective::instance(int thread) const {
  GV_CHECK(thread >= 0);
  GV_CHECK(static_cast<size_t>(thread) < instances_.size());
  return *instances_[static_cast<size_t>(thread)];
}

double NetworkObjective::gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) {
  double loss = 0;
  queue_gradient(thread, nullptr, rank, index, x, g, &loss);
  gradient_came(thread, rank);
  return loss;
}

Status NetworkObjective::use_gpu(int number) {
  if (Status found = find_gpu(number); !found) return found;
  gpu_ = number;
  allow_tf32(spec_.tf32);
  give_back_unused();  // the memory of an earlier run
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(number));
  try {
    for (const std::unique_ptr<NetworkInstance>& instance : instances_)
      instance->move_to(device);
    try_out();
    try_gradient();
  } catch (const std::exception& refusal) {
    use_host();
    return user_error("the network cannot compute on GPU " + std::to_string(number) + ": " +
                      one_line_of(refusal));
  }
  return Done{};
}

// Some operations have a forward pass on a GPU but no backward pass, or another one in training.
void NetworkObjective::try_gradient() {
  Buffer start(layout_.size(), DType::f32);
  initial_point(0, start);
  NetworkInstance& own = instance(0);
  const auto size = static_cast<int64_t>(start.size());
  const at::Tensor x = view_of(start.vec().as<float>(), {size}, at::kCPU).to(own.device());
  const at::Tensor g = at::empty_like(x);
  const at::Tensor loss = own.host_memory(1, at::kDouble);
  statistics_.load(0, own.statistics());
  own.queue_gradient(spec_, 0, 0, {x.const_data_ptr(), start.size(), DType::f32},
                     {g.mutable_data_ptr(), start.size(), DType::f32},
                     loss.mutable_data_ptr<double>());
  static_cast<void>(g.sum().item());  // waits
}

void NetworkObjective::use_host() {
  if (std::exchange(gpu_, -1) < 0) return;
  for (const std::unique_ptr<NetworkInstance>& instance : instances_)
    instance->move_to(at::kCPU);
}

void NetworkObjective::queue_gradient(int thread, void* stream, int rank, uint64_t index,
                                      ConstVec x, Vec g, double* loss) {
  GV_CHECK((stream != nullptr) == (gpu_ >= 0));
  NetworkInstance& own = instance(thread);
  const auto queue = [&] {
    statistics_.load(rank, own.statistics());
    own.queue_gradient(spec_, rank, index, x, g, loss);
  };
  in_words([&] {
    if (stream == nullptr) return within_memory(queue);
    const OnStream here(gpu_, stream);
    within_memory(queue);
  });
}

// On a lack of memory, frees LibTorch's cache and tries once more. The second try overwrites
// everything that the first one left.
template <class Work>
void NetworkObjective::within_memory(Work&& work) const {
  try {
    return work();
  } catch (const c10::OutOfMemoryError&) {
    if (gpu_ >= 0) give_back_unused();
  }
  try {
    work();
  } catch (const c10::OutOfMemoryError&) {
    throw NoMemoryLeft();
  }
}

void NetworkObjective::gradient_came(int thread, int rank) {
  statistics_.store(rank, instance(thread).statistics());
}

Status NetworkObjective::go_on_in_data(const std::vector<DataCut>& cuts) {
  const auto batches_of = [](const std::unique_ptr<NetworkInstance>& i) -> auto& {
    return i->batches();
  };
  return go_on_after(cuts, dealt_, spec_.ranks, spec_.seed, instances_, batches_of);
}

NetworkInstance& NetworkObjective::look_at(ConstVec x, int thread, int rank) {
  NetworkInstance& own = instance(thread);
  statistics_.load(rank, own.statistics());
  own.look_at(x);
  return own;
}

}  // namespace grapevine
