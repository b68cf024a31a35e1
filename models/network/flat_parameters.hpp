// FlatParameters: the tensors of a plan, pointed at whatever flat vectors a call brings.
//
// They are leaf tensors whose storage is switched to a rank's x (set_data on prebuilt views, half a
// microsecond for eight tensors). Gradients are brought into the caller's g when all are there:
// tensors that had one before would each be added to, a pass for each of them. x must not change
// hands before gradient() returns: autograd does not notice a parameter vector that changes between
// forward and backward, and gives a wrong gradient.
//
// On a GPU a tensor that does not begin at a multiple of 16 bytes is copied to one that does: the
// libraries have slower kernels for others.
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
  /// The parameters of a network, one per entry, fp32, of its shape and in the host's memory.
  FlatParameters(const ParameterLayout&, std::vector<at::Tensor> leaves);

  /// Flat vectors are that device's from now on.
  void move_to(at::Device);

  /// In the order of the layout, at the x bound last.
  const std::vector<at::Tensor>& tensors() const { return tensors_; }

  void bind(ConstVec x);

  /// From now on each tensor begins at a multiple of so many bytes, as move_to() a GPU does. x
  /// does.
  void align(size_t bytes);

  /// Of a loss at the x bound last: its gradient into g, shortened to the norm `clip` where it is
  /// longer (0: any). Parameters that the loss does not depend on have none, which is 0.
  void gradient(const at::Tensor& loss, Vec g, double clip);

 private:
  using Views = std::vector<at::Tensor>;
  const Views& views_of(const void* data);
  at::Tensor whole(Vec g) const;
  void shorten(Vec g, double clip) const;

  const ParameterLayout* layout_;
  at::Device device_ = at::kCPU;
  Views tensors_;
  Views aligned_;                                 // undefined: it lies well in x
  std::unordered_map<const void*, Views> views_;  // by the address of a flat vector
};

}  // namespace grapevine
