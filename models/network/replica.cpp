#include "models/network/replica.hpp"

#include <c10/core/GradMode.h>

#include <cstring>

namespace grapevine {
namespace {

constexpr size_t kViewsKept = 1024;  // flat vectors; more than the slots of any snapshot pool

// A step never writes x, but from_blob has no read-only form.
at::Tensor view_of(const float* data, at::IntArrayRef shape) {
  return at::from_blob(const_cast<float*>(data), shape, at::TensorOptions(at::kFloat));
}

}  // namespace

Replica::Replica(const NetworkPlan& plan, const Batches& batches, size_t largest_batch)
    : plan_(&plan),
      batches_(batches),
      input_(largest_batch * plan.input.size()),
      labels_(largest_batch),
      statistics_(plan.statistics_size) {
  for (const ParameterEntry& entry : plan.layout.entries()) {
    parameters_.push_back(at::zeros(entry.shape, at::kFloat).set_requires_grad(true));
  }
  for (const NormStatistics& norm : plan.norms) {
    const float* mean = statistics_.data() + norm.offset;
    const int64_t channels = static_cast<int64_t>(norm.channels);
    running_.push_back(view_of(mean, {channels}));
    running_.push_back(view_of(mean + channels, {channels}));
  }
}

// A view holds an address and no memory, so one that outlives its vector is harmless until it is
// asked for again, and then the address is the new vector's.
const Replica::Views& Replica::views_of(const void* data) {
  const auto known = views_.find(data);
  if (known != views_.end()) return known->second;
  if (views_.size() >= kViewsKept) views_.clear();
  Views views;
  for (const ParameterEntry& entry : plan_->layout.entries()) {
    views.push_back(view_of(static_cast<const float*>(data) + entry.offset, entry.shape));
  }
  return views_.emplace(data, std::move(views)).first->second;
}

void Replica::bind(ConstVec x) {
  GV_CHECK(x.size == plan_->layout.size());
  const Views& views = views_of(x.as<float>());
  for (size_t k = 0; k < views.size(); ++k) parameters_[k].set_data(views[k]);
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
  return at::from_blob(labels_.data(), {static_cast<int64_t>(count)},
                       at::TensorOptions(at::kLong));
}

void Replica::check_flat(Vec g) const {
  const float* flat = g.as<float>();
  for (size_t k = 0; k < parameters_.size(); ++k) {
    const float* expected = flat + plan_->layout.entries()[k].offset;
    GV_CHECK(parameters_[k].grad().const_data_ptr<float>() == expected);
  }
}

double Replica::gradient(size_t count, ConstVec x, Vec g) {
  GV_CHECK(g.size == plan_->layout.size());
  bind(x);
  const Views& into = views_of(g.as<float>());
  for (size_t k = 0; k < into.size(); ++k) parameters_[k].mutable_grad() = into[k];
  std::memset(g.data, 0, g.bytes());
  const at::Tensor logits = forward(*plan_, {parameters_, running_, true}, batch_of(count));
  const at::Tensor loss = at::cross_entropy_loss(logits, labels_of(count));
  loss.backward();
  check_flat(g);
  return loss.item<double>();
}

Replica::Outcome Replica::test(size_t count, ConstVec x) {
  const c10::NoGradGuard no_gradients;
  bind(x);
  const at::Tensor logits = forward(*plan_, {parameters_, running_, false}, batch_of(count));
  const at::Tensor labels = labels_of(count);
  const at::Tensor right = logits.argmax(1).eq(labels).sum();
  const double loss = at::cross_entropy_loss(logits, labels).item<double>();
  return {loss * static_cast<double>(count), static_cast<size_t>(right.item<int64_t>())};
}

}  // namespace grapevine
