// The forward passes of the zoo, on bare tensors: parameters in the plan's order, no torch::nn.
//
// Images come as [n, c, h, w] with the strides of channels-last, one channel included: so every
// later layer runs channels-last, and max-pooling comes before relu (equal values, a quarter of the
// elements): together 1.5 times the speed of the usual order and layout on the 28x28 networks.
#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "models/zoo.hpp"

namespace grapevine {

/// The inputs of a network's evaluation. Running statistics: a mean and a variance per norm, in the
/// plan's order; updated in place when training, used when not.
struct ForwardState {
  const std::vector<at::Tensor>& parameters;
  const std::vector<at::Tensor>& running;
  bool training = false;
};

/// The logits [n, classes] for a batch [n, c, h, w] or [n, features].
at::Tensor forward(const NetworkPlan&, const ForwardState&, const at::Tensor& batch);

}  // namespace grapevine
