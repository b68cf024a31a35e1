// The forward pass of a transformer, on bare tensors in the plan's order: nanoGPT's
// (github.com/karpathy/nanoGPT), without dropout and biases.
#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "models/zoo.hpp"

namespace grapevine {

/// The scores [n, t, vocabulary] of the token that follows each of `tokens` [n, t]. t is at most
/// the shape's context.
at::Tensor transformer(const TransformerShape&, const std::vector<at::Tensor>& parameters,
                       const at::Tensor& tokens);

}  // namespace grapevine
