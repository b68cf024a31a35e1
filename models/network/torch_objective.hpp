// TorchObjective: any network of LibTorch's C++ API, with a loss and samples, as an Objective.
//
// The network is made once per thread that computes, and its parameters are pointed at whatever
// flat vectors a call brings (flat_parameters.hpp), so one instance serves every rank. What it has
// as floating-point buffers (running statistics) belongs to a rank, and their average to the model
// at the end (running_statistics.hpp). Parameters that need no gradient stay as they were made, and
// are saved with the others; tied ones count once, by their first name.
//
// All instances must be made equal: torch's generator has the same seed before each is made. With
// one thread it is also seeded by (seed, rank, index) before each gradient, so dropout repeats;
// with several it draws as it comes. LibTorch's own threads are set to one per thread of ours.
//
// An exception of the network's or of the loss ends the run, which fails with its
// text.
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

/// Samples, however the caller has them.
struct TorchData {
  size_t size = 0;
  /// The samples of these numbers, in this order. Several threads at once.
  std::function<TorchBatch(std::span<const uint32_t> rows)> batch;
  std::string name = "samples of its own";

  /// Two tensors whose first dimension counts samples.
  static TorchData of(at::Tensor inputs, at::Tensor targets);

  /// The samples of a set, as the zoo's networks see them: images [n, c, h, w] and rows [n, c],
  /// normalised, not augmented; targets are the labels.
  static TorchData of(std::shared_ptr<const DataSet>, bool test);

  /// A set of torch::data whose examples are a tensor and its target. It must bear being read by
  /// several threads.
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

/// One instance of a network: leaves that its forward pass reads.
struct TorchNetwork {
  std::vector<std::pair<std::string, at::Tensor>> parameters, buffers;
  std::function<at::Tensor(const at::Tensor& inputs)> forward;
  std::function<void(bool training)> train;
};

/// Of a torch::nn::Module with a forward(tensor).
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

/// Means over a batch. Classes are 64-bit numbers, and scores [n, classes]; in mean_square outputs
/// [n, 1] fit targets [n].
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

/// Of the spec: ranks, threads, seed, batch, clip, partition. Accuracy is the part of samples whose
/// highest score is their class, where targets are whole numbers, one a sample; else there is none.
/// Errors (user): what the task lacks; parameters that are none, not fp32 or not on the CPU; fewer
/// samples than ranks or than a batch; instances that differ; what `make` threw, or a first pass
/// over two samples: shapes that do not fit.
Result<std::unique_ptr<Objective>> make_torch_objective(const ObjectiveSpec&, TorchTask);

}  // namespace grapevine
