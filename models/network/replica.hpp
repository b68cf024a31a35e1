// Replica: one thread's instance of a network, pointed at whatever flat vectors it is called with.
//
// Its parameters are leaf tensors whose storage is switched to a rank's x (set_data on prebuilt
// views, half a microsecond for eight tensors); their gradients are views of the caller's g, so
// backward adds straight into it. x and g must not change hands before gradient() returns: autograd
// does not notice a parameter vector that changes between forward and backward, and gives a wrong
// gradient.
//
// Owned and used by one thread at a time.
#pragma once
#include <ATen/ATen.h>

#include <unordered_map>
#include <vector>

#include "models/batches.hpp"
#include "models/network/networks.hpp"

namespace grapevine {

class Replica {
 public:
  Replica(const NetworkPlan& plan, const Batches& batches, size_t largest_batch);
  Replica(Replica&&) = default;

  struct Outcome {
    double loss_sum = 0;
    size_t right = 0;
  };

  /// Where sample k of the next batch goes, and its label.
  float* input(size_t k) { return input_.data() + k * plan_->input.size(); }
  int64_t& label(size_t k) { return labels_[k]; }

  /// Mean cross-entropy over the first `count` samples at x, and its gradient into g. Updates
  /// statistics().
  double gradient(size_t count, ConstVec x, Vec g);

  /// The same samples at x without a gradient, with statistics() for the norms.
  Outcome test(size_t count, ConstVec x);

  std::vector<float>& statistics() { return statistics_; }  // the running ones, as in the plan
  Batches& batches() { return batches_; }

 private:
  using Views = std::vector<at::Tensor>;
  const Views& views_of(const void* data);
  void bind(ConstVec x);
  at::Tensor batch_of(size_t count);
  at::Tensor labels_of(size_t count);
  void check_flat(Vec g) const;

  const NetworkPlan* plan_;
  Batches batches_;
  std::vector<float> input_;
  std::vector<int64_t> labels_;
  std::vector<float> statistics_;
  Views parameters_;
  Views running_;  // views of statistics_
  std::unordered_map<const void*, Views> views_;  // by the address of a flat vector
};

}  // namespace grapevine
