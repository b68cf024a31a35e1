// Replica: one thread's instance of a classifier, pointed at whatever flat vectors it is called
// with, in the host's memory or on a GPU.
//
// On a GPU the samples go up from pinned memory, and nothing here waits for what it queues, but for
// tests. Owned and used by one thread at a time.
#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "models/batches.hpp"
#include "models/network/flat_parameters.hpp"
#include "models/network/networks.hpp"

namespace grapevine {

class Replica {
 public:
  Replica(const NetworkPlan& plan, const Batches& batches, size_t largest_batch,
          at::Device device = at::kCPU);
  Replica(Replica&&) = default;

  struct Outcome {
    double loss_sum = 0;
    size_t right = 0;
  };

  /// Where sample k of the next batch goes, and its label.
  float* input(size_t k) { return input_.mutable_data_ptr<float>() + k * plan_->input.size(); }
  int64_t& label(size_t k) { return labels_.mutable_data_ptr<int64_t>()[k]; }

  /// Mean cross-entropy over the first `count` samples at x, and its gradient into g, of a norm of
  /// at most `clip` (0: any). Updates statistics().
  double gradient(size_t count, ConstVec x, Vec g, double clip);
  /// The same, queued on the current stream of a GPU. `loss` is in pinned memory.
  void queue_gradient(size_t count, ConstVec x, Vec g, double clip, double* loss);

  /// From now on tests are at x, in the host's memory, with statistics() for the norms.
  void look_at(ConstVec x);
  /// The first `count` samples without a gradient.
  Outcome test(size_t count);

  float* statistics() { return statistics_.mutable_data_ptr<float>(); }  // running, as in the plan
  Batches& batches() { return batches_; }
  const Batches& batches() const { return batches_; }

 private:
  at::Tensor batch_of(size_t count);
  at::Tensor labels_of(size_t count);
  at::Tensor on_device(at::Tensor) const;
  at::Tensor differentiate(size_t count, ConstVec x, Vec g, double clip);

  const NetworkPlan* plan_;
  Batches batches_;
  const at::Device device_;
  at::Tensor input_, labels_, statistics_;  // in the host's memory, pinned where there is a GPU
  at::Tensor running_there_;                // statistics_, or its copy on the GPU
  at::Tensor tested_;                       // on a GPU: x of the tests
  FlatParameters parameters_;
  std::vector<at::Tensor> running_;  // views of running_there_
};

}  // namespace grapevine
