#include "models/network/replica.hpp"

#include <c10/core/GradMode.h>

namespace grapevine {
Replica::Replica(const NetworkPlan& plan, const Batches& batches, size_t largest_batch)
    : plan_(&plan),
      batches_(batches),
      input_(largest_batch * plan.input.size()),
      labels_(largest_batch),
      statistics_(plan.statistics_size),
      parameters_(plan) {
  for (const NormStatistics& norm : plan.norms) {
    const float* mean = statistics_.data() + norm.offset;
    const int64_t channels = static_cast<int64_t>(norm.channels);
    running_.push_back(view_of(mean, {channels}));
    running_.push_back(view_of(mean + channels, {channels}));
  }
}

at::Tensor Replica::batch_of(size_t count) {
  GV_CHECK(count <= labels_.size());
  const int64_t n = static_cast<int64_t>(count);
  const int64_t c = plan_->input.channels, h = plan_->input.height, w = plan_->input.width;
  if (!plan_->input.image) return view_of(input_.data(), {n, c});
  return at::from_blob(input_.data(), {n, c, h, w}, {h * w * c, 1, w * c, c},
                       at::TensorOptions(at::kFloat));
}

at::Tensor Replica::labels_of(size_t count) {
  return at::from_blob(labels_.data(), {static_cast<int64_t>(count)}, at::TensorOptions(at::kLong));
}

double Replica::gradient(size_t count, ConstVec x, Vec g, double clip) {
  parameters_.bind(x, g);
  const ForwardState state{parameters_.tensors(), running_, true};
  const at::Tensor loss =
      at::cross_entropy_loss(forward(*plan_, state, batch_of(count)), labels_of(count));
  loss.backward();
  parameters_.finish_gradient(g, clip);
  return loss.item<double>();
}

Replica::Outcome Replica::test(size_t count, ConstVec x) {
  const c10::NoGradGuard no_gradients;
  parameters_.bind(x);
  const at::Tensor logits =
      forward(*plan_, {parameters_.tensors(), running_, false}, batch_of(count));
  const at::Tensor labels = labels_of(count);
  const at::Tensor right = logits.argmax(1).eq(labels).sum();
  const double loss = at::cross_entropy_loss(logits, labels).item<double>();
  return {loss * static_cast<double>(count), static_cast<size_t>(right.item<int64_t>())};
}

}  // namespace grapevine
