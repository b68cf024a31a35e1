// Networks of LibTorch's C++ API, as objectives of a run. Needs LibTorch's headers, and is linked
// with grapevine::torch: find_package(Grapevine COMPONENTS torch).
#pragma once
#include <grapevine/grapevine.hpp>

#include "models/network/torch_objective.hpp"

namespace grapevine {

/// Makes an objective of the network that `make` returns: () -> std::shared_ptr<a torch::nn::Module
/// with forward(tensor)>. Uses batch, clip and partition of settings.objective. Errors: as
/// make_torch_objective.
template <class Make>
Result<std::shared_ptr<Objective>> torch_objective(const Settings& settings, Make make,
                                                   TorchData train, TorchData test,
                                                   decltype(TorchTask::loss) loss = cross_entropy) {
  ObjectiveSpec spec = settings.objective;
  spec.ranks = settings.ranks;
  spec.seed = settings.seed;
  spec.threads = compute_threads(settings);
  TorchTask task;
  task.make = [make = std::move(make)] { return network_of(make()); };
  task.train = std::move(train);
  task.test = std::move(test);
  task.loss = std::move(loss);
  task.decay_norms_and_biases = spec.decay_norms_and_biases;
  auto made = make_torch_objective(spec, std::move(task));
  if (!made) return made.error();
  return std::shared_ptr<Objective>(std::move(*made));
}

}  // namespace grapevine
