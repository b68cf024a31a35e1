// FlatParameters: the tensors of a plan, pointed at whatever flat vectors a call brings.
//
// They are leaf tensors whose storage is switched to a rank's x (set_data on prebuilt views, half a
// microsecond for eight tensors); their gradients are views of the caller's g, so backward adds
// straight into it. x and g must not change hands before finish_gradient() returns: autograd does
// not notice a parameter vector that changes between forward and backward, and gives a wrong
// gradient.
//
// Owned and used by one thread at a time.
#pragma once
#include <ATen/ATen.h>

#include <unordered_map>
#include <vector>

#include "models/zoo.hpp"

namespace grapevine {

/// fp32 memory, of the host or of a GPU, as a tensor that owns nothing.
at::Tensor view_of(const float* data, at::IntArrayRef shape, at::Device device = at::kCPU);

class FlatParameters {
 public:
  /// Leaves of its own. The layout outlives it.
  explicit FlatParameters(const ParameterLayout&);
  /// Those of a network, one per entry, fp32, of its shape and in the host's memory.
  FlatParameters(const ParameterLayout&, std::vector<at::Tensor> leaves);

  /// Flat vectors are that device's from now on.
  void move_to(at::Device);

  /// In the order of the layout, at the x bound last.
  const std::vector<at::Tensor>& tensors() const { return tensors_; }

  void bind(ConstVec x);

  /// The same; g becomes 0, and backward adds to it.
  void bind(ConstVec x, Vec g);

  /// Checks that backward filled g, and shortens it to the norm `clip` where it is longer (0: any).
  void finish_gradient(Vec g, double clip) const;

 private:
  using Views = std::vector<at::Tensor>;
  const Views& views_of(const void* data);
  at::Tensor whole(Vec g) const;

  const ParameterLayout* layout_;
  at::Device device_ = at::kCPU;
  Views tensors_;
  std::unordered_map<const void*, Views> views_;  // by the address of a flat vector
};

}  // namespace grapevine
