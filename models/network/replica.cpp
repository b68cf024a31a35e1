#include "models/network/replica.hpp"

#include <c10/core/GradMode.h>

namespace grapevine {
namespace {

at::Tensor host_memory(size_t size, at::ScalarType type, at::Device device) {
  return at::zeros({static_cast<int64_t>(size)},
                   at::TensorOptions(type).pinned_memory(device.is_cuda()));
}

}  // namespace

Replica::Replica(const NetworkPlan& plan, const Batches& batches, size_t largest_batch,
                 at::Device device)
    : plan_(&plan),
      batches_(batches),
      device_(device),
      input_(host_memory(largest_batch * plan.input.size(), at::kFloat, device)),
      labels_(host_memory(largest_batch, at::kLong, device)),
      statistics_(host_memory(plan.statistics_size, at::kFloat, device)),
      running_there_(statistics_.to(device)),
      parameters_(plan, device) {
  for (const NormStatistics& norm : plan.norms) {
    const int64_t offset = static_cast<int64_t>(norm.offset);
    const int64_t channels = static_cast<int64_t>(norm.channels);
    running_.push_back(running_there_.narrow(0, offset, channels));
    running_.push_back(running_there_.narrow(0, offset + channels, channels));
  }
}

at::Tensor Replica::batch_of(size_t count) {
  const int64_t n = static_cast<int64_t>(count);
  GV_CHECK(n <= labels_.numel());
  const int64_t c = plan_->input.channels, h = plan_->input.height, w = plan_->input.width;
  float* const first = input_.mutable_data_ptr<float>();
  if (!plan_->input.image) return view_of(first, {n, c});
  return at::from_blob(first, {n, c, h, w}, {h * w * c, 1, w * c, c},
                       at::TensorOptions(at::kFloat));
}

at::Tensor Replica::labels_of(size_t count) {
  return labels_.narrow(0, 0, static_cast<int64_t>(count));
}

at::Tensor Replica::on_device(at::Tensor t) const {
  return device_.is_cpu() ? t : t.to(device_, true);
}

at::Tensor Replica::differentiate(size_t count, ConstVec x, Vec g, double clip) {
  parameters_.bind(x, g);
  const ForwardState state{parameters_.tensors(), running_, true};
  const at::Tensor loss = at::cross_entropy_loss(forward(*plan_, state, on_device(batch_of(count))),
                                                 on_device(labels_of(count)));
  loss.backward();
  parameters_.finish_gradient(g, clip);
  return loss;
}

double Replica::gradient(size_t count, ConstVec x, Vec g, double clip) {
  GV_CHECK((device_.is_cpu()));
  return differentiate(count, x, g, clip).item<double>();
}

void Replica::queue_gradient(size_t count, ConstVec x, Vec g, double clip, double* loss) {
  running_there_.copy_(statistics_, true);
  const at::Tensor there = differentiate(count, x, g, clip).detach();
  at::from_blob(loss, {}, at::TensorOptions(at::kDouble)).copy_(there.to(at::kDouble), true);
  statistics_.copy_(running_there_, true);
}

void Replica::look_at(ConstVec x) {
  if (device_.is_cpu()) return parameters_.bind(x);
  const c10::NoGradGuard no_gradients;
  tested_ = view_of(x.as<float>(), {static_cast<int64_t>(x.size)}).to(device_);
  parameters_.bind({tested_.const_data_ptr(), x.size, x.dtype});
  running_there_.copy_(statistics_);
}

Replica::Outcome Replica::test(size_t count) {
  const c10::NoGradGuard no_gradients;
  const at::Tensor logits =
      forward(*plan_, {parameters_.tensors(), running_, false}, on_device(batch_of(count)));
  const at::Tensor labels = on_device(labels_of(count));
  const at::Tensor right = logits.argmax(1).eq(labels).sum();
  const double loss = at::cross_entropy_loss(logits, labels).item<double>();
  return {loss * static_cast<double>(count), static_cast<size_t>(right.item<int64_t>())};
}

}  // namespace grapevine
