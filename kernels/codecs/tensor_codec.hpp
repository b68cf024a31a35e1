// The compression of one tensor: the implementation of compressor.hpp.
//
// A `Tensor` (codec_passes.hpp) has a tensor's position in the vector and in the encoded bytes, and
// its number of encoded values. `v` and `y` are views of one tensor; `bytes` points to its first
// byte.
#pragma once
#include <span>

#include "kernels/passes/codec_passes.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine::codec {

/// The size of an encoded tensor.
size_t bytes_of(const Tensor&, DType);

/// Arguments that all tensors of one call share.
struct Call {
  const Execution& on;
  Draws draws;
  Random places;       // the CPU's draws, which continue from tensor to tensor
  std::byte* scratch;  // on a device: scratch_bytes_of the tensor, aligned for fp64
};

/// `start`: at least columns x rank numbers, for low-rank: the draws of kStart.
void encode(Call&, const Tensor&, ConstVec v, std::span<const double> start, std::byte* bytes);

/// y += a C(v).
void decode(Call&, const Tensor&, const std::byte* bytes, double a, Vec y);

/// The start of subspace iterations, equal on all nodes.
constexpr Draws kStart{};

}  // namespace grapevine::codec
