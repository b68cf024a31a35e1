// How one tensor is compressed: the inside of compressor.hpp.
//
// A `Tensor` says where a tensor lies in the vector and in the encoded bytes, and what of it
// travels. `v` and `y` are views of the tensor alone, `bytes` points to its first byte.
#pragma once
#include <span>

#include "kernels/ops.hpp"
#include "kernels/random.hpp"

namespace grapevine::codec {

enum class Kind { identity, top_k, random_k, sign, low_rank, quantise };

struct Tensor {
  Kind kind;  // `identity` too for what a low-rank compressor sends raw
  size_t offset = 0, size = 0, rows = 1, columns = 0;
  size_t count = 0;  // top-k, random-k: values that travel; low-rank: the rank
  int bits = 0;      // quantise
  size_t at_byte = 0, bytes = 0;
};

/// What an encoded tensor costs.
size_t bytes_of(const Tensor&, DType);

/// `places` is the stream of random-k; `start` has at least columns x rank numbers, for low-rank.
void encode(const Execution&, const Tensor&, ConstVec v, Random& places,
            std::span<const double> start, std::byte* bytes);

/// y += a C(v).
void decode(const Execution&, const Tensor&, const std::byte* bytes, Random& places, double a,
            Vec y);

}  // namespace grapevine::codec
