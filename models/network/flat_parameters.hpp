// FlatParameters: the tensors of a plan, which point at the flat vectors of a call.
//
// They are leaf tensors. Binding switches their storage to a rank's x (set_data on prebuilt views,
// half a microsecond for eight tensors). Gradients are copied into the caller's g when all of them
// exist. If the tensors held their old gradients, each new gradient would be added to them, one
// pass per tensor. x must not change before gradient() returns: autograd does not notice a
// parameter vector that changes between forward and backward, and gives a wrong gradient.
//
// On a GPU, a tensor that does not begin at a multiple of 16 bytes is copied to aligned memory: the
// libraries' kernels are slower for unaligned tensors.
//
// Used by one thread at a time.
#pragma once
#include <ATen/ATen.h>

#include <unordered_map>
#include <vector>

#include "models/zoo.hpp"

namespace grapevine {

/// fp32 memory of the host or of a GPU as a tensor that owns nothing.
at::Tensor view_of(const float* data, at::IntArrayRef shape, at::Device device = at::kCPU);

class FlatParameters {
 public:
  /// Creates its own leaves. The layout must outlive this object.
  explicit FlatParameters(const ParameterLayout&);
  /// Uses a network's parameters: fp32 tensors in host memory, one per entry, of the entry's shape.
  FlatParameters(const ParameterLayout&, std::vector<at::Tensor> leaves);

  /// From now on flat vectors are on that device.
  void move_to(at::Device);

  /// In the order of the layout, with the values of the x bound last.
  const std::vector<at::Tensor>& tensors() const { return tensors_; }

  void bind(ConstVec x);

  /// From now on each tensor begins at a multiple of `bytes`; move_to() a GPU calls it. REQUIRES: x
  /// does.
  void align(size_t bytes);

  /// Writes the gradient of a loss at the x bound last into g. A norm above `clip` is reduced to it
  /// (0: no limit). A parameter that the loss does not depend on gets gradient 0.
  void gradient(const at::Tensor& loss, Vec g, double clip);

 private:
  using Views = std::vector<at::Tensor>;
  const Views& views_of(const void* data);
  at::Tensor whole(Vec g) const;
  void shorten(Vec g, double clip) const;

  const ParameterLayout* layout_;
  at::Device device_ = at::kCPU;
  Views tensors_;
  Views aligned_;                                 // undefined: it is aligned in x
  std::unordered_map<const void*, Views> views_;  // by the address of a flat vector
};

}  // namespace grapevine
