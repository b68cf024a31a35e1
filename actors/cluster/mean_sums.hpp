// Sums on their way up the tree of a mean (mean_exchange.hpp). Sums for fp64 means are sent as they
// are, those for fp32 means in 36 bits a number: an edge carries 1.125 models up and one down.
//
//   m = sum / ranks;   high = fp32(m);   low = 16 (m - high) / ulp(high), rounded, in [-8, 8)
//
// A sum so keeps 28 bits where fp32 keeps 24: each edge on the way to the root adds an error of at
// most a sixteenth of an fp32's last place, in the mean of the ranks below it. It is sent as a mean
// because a sum of fp32 numbers may exceed their range. In memory sums stay fp64.
//
// Packed: all `high`, then all `low` + 8, two in a byte, the first in its lower half.
#pragma once
#include "kernels/memory/vec.hpp"

namespace grapevine {

/// The shape of a packed sum: the number and type of its elements.
struct PackedShape {
  DType dtype = DType::f64;
  uint64_t count = 0;
};
PackedShape packed_shape(uint64_t count, DType mean);

/// For an fp32 mean; `packed` has packed_shape(). `ranks`: in the sums; 0: none, all sums are 0.
void pack(ConstVec sums, double ranks, Vec packed);

/// Adds packed sums to `sums`. REQUIRES: `packed` has their shape and is_finite().
void add_packed(ConstVec packed, double ranks, Vec sums);

/// Whether `count` sums from a peer, of their packed shape, are finite.
bool is_finite(ConstVec packed, uint64_t count);

/// sum / n in `dtype`; the sum is fp64.
Buffer mean_of(ConstVec sum, double n, DType dtype);

}  // namespace grapevine
