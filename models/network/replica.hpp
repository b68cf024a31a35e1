// Replica: one thread's instance of a classifier, pointed at whatever flat vectors it is called
// with.
//
// Owned and used by one thread at a time.
#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "models/batches.hpp"
#include "models/network/flat_parameters.hpp"
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

  /// Mean cross-entropy over the first `count` samples at x, and its gradient into g, of a norm of
  /// at most `clip` (0: any). Updates statistics().
  double gradient(size_t count, ConstVec x, Vec g, double clip);

  /// The same samples at x without a gradient, with statistics() for the norms.
  Outcome test(size_t count, ConstVec x);

  std::vector<float>& statistics() { return statistics_; }  // the running ones, as in the plan
  Batches& batches() { return batches_; }

 private:
  at::Tensor batch_of(size_t count);
  at::Tensor labels_of(size_t count);

  const NetworkPlan* plan_;
  Batches batches_;
  std::vector<float> input_;
  std::vector<int64_t> labels_;
  std::vector<float> statistics_;
  FlatParameters parameters_;
  std::vector<at::Tensor> running_;  // views of statistics_
};

}  // namespace grapevine
