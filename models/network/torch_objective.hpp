// TorchObjective: any network of LibTorch's C++ API, with a loss and samples, as an Objective.
//
// The network is made once per computing thread. Its parameters are pointed at the flat vectors of
// each call (flat_parameters.hpp), so one instance serves every rank. Floating-point buffers
// (running statistics) belong to a rank; the final model has their average
// (running_statistics.hpp). Parameters that need no gradient keep their initial values and are
// saved with the others. Tied parameters count once, under their first name.
//
// All instances must be equal: torch's generator gets the same seed before each is made. With one
// thread it also gets a seed from (seed, rank, index) before each gradient, so dropout repeats;
// with several threads dropout is not reproducible. LibTorch uses one thread of its own per thread
// of ours.
//
// An exception of the network or of the loss ends the run, which fails with its text.
#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/data/data_set.hpp"
#include "models/objective.hpp"

namespace grapevine {

struct TorchBatch {
  at::Tensor inputs, targets;  // the first dimension counts samples
};

/// Samples from any source.
struct TorchData {
  size_t size = 0;
  /// The samples with these numbers, in this order. Several threads call it at once.
  std::function<TorchBatch(std::span<const uint32_t> rows)> batch;
  std::string name = "samples of its own";

  /// Two tensors whose first dimension counts samples.
  static TorchData of(at::Tensor inputs, at::Tensor targets);

  /// The samples of a data set in the form of the zoo's networks: images [n, c, h, w] and rows [n,
  /// c], normalised, not augmented; the targets are the labels.
  static TorchData of(std::shared_ptr<const DataSet>, bool test);

  /// A set of torch::data whose examples are a tensor and its target. Several threads must be able
  /// to read it at once.
  template <class Dataset>
  static TorchData from(Dataset dataset) {
    const auto shared = std::make_shared<Dataset>(std::move(dataset));
    TorchData data;
    data.size = shared->size().value();
    data.batch = [shared](std::span<const uint32_t> rows) {
      std::vector<at::Tensor> inputs, targets;
      for (const uint32_t row : rows) {
        auto example = shared->get(row);
        inputs.push_back(std::move(example.data));
        targets.push_back(std::move(example.target));
      }
      return TorchBatch{at::stack(inputs), at::stack(targets)};
    };
    return data;
  }
};

/// One instance of a network; its forward pass reads these leaves.
struct TorchNetwork {
  std::vector<std::pair<std::string, at::Tensor>> parameters, buffers;
  std::function<at::Tensor(const at::Tensor& inputs)> forward;
  std::function<void(bool training)> train;
};

/// The network of a torch::nn::Module with a forward(tensor).
template <class Net>
TorchNetwork network_of(std::shared_ptr<Net> net) {
  TorchNetwork made;
  for (const auto& p : net->named_parameters())
    made.parameters.emplace_back(p.key(), p.value());
  for (const auto& b : net->named_buffers())
    made.buffers.emplace_back(b.key(), b.value());
  made.forward = [net](const at::Tensor& inputs) { return net->forward(inputs); };
  made.train = [net](bool training) { net->train(training); };
  return made;
}

/// The mean loss of a batch. Classes are 64-bit numbers; scores are [n, classes]. In mean_square,
/// outputs [n, 1] fit targets [n].
at::Tensor cross_entropy(const at::Tensor& scores, const at::Tensor& classes);
at::Tensor mean_square(const at::Tensor& outputs, const at::Tensor& targets);

struct TorchTask {
  std::function<TorchNetwork()> make;
  TorchData train, test;
  std::function<at::Tensor(const at::Tensor& outputs, const at::Tensor& targets)> loss =
      cross_entropy;
  std::string name = "a network of its own";
  bool decay_norms_and_biases = true;  // false: parameters of one dimension do not decay
};

/// Uses ranks, threads, seed, batch, clip and partition of the spec. Accuracy is the share of
/// samples whose highest score is their class, if targets are one whole number per sample;
/// otherwise there is none. Errors (user): the task lacks something; there are no parameters, or
/// they are not fp32 or not on the CPU; there are fewer samples than ranks or than a batch; the
/// instances differ; `make` or a first pass over two samples threw (shapes that do not fit).
Result<std::unique_ptr<Objective>> make_torch_objective(const ObjectiveSpec&, TorchTask);

}  // namespace grapevine
