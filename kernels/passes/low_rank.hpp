// The computations of low-rank gossip (PowerGossip, Vogels et al., NeurIPS 2020, arXiv 2008.01425):
// a tensor as a row-major m x n matrix X inside a flat vector, and its thin factors P (m x r) and Q
// (n x r).
//
// X and x~ are views of m n elements. Factors are stored by columns: column k of P is elements [k
// m, (k + 1) m), so the first columns of a factor are a factor. All views of a call have one dtype;
// no two overlap. Any rank >= 1; up to rank 4, X is read once.
//
// Sums have a fixed order for any number of threads and any instruction set. On a GPU `times` has
// another order (equal up to rounding); all other functions give the same bits on every device. So
// if two ends of an edge orthonormalise equal factors, the results stay equal.
#pragma once
#include <functional>

#include "kernels/passes/ops.hpp"

namespace grapevine {

struct LowRank {
  size_t rows = 0;     // m
  size_t columns = 0;  // n
  size_t rank = 1;     // r
};

/// P = X Q.
void times(const Execution&, const LowRank&, ConstVec x, ConstVec q, Vec p);

/// Q = X^T P.
void transposed_times(const Execution&, const LowRank&, ConstVec x, ConstVec p, Vec q);

/// X += a P Q^T. 2 words per element of X.
void add_low_rank(const Execution&, const LowRank&, double a, ConstVec p, ConstVec q, Vec x);

/// Mix by c; then X += a P Q^T,  x~ += b P Q^T: the pairwise jump whose difference is P Q^T. 4
/// words per element of X. Optional: x_tilde (without it there is no mixing, as in `add_low_rank`).
void mix_and_add_low_rank(const Execution&, const LowRank&, double c, double a, double b,
                          ConstVec p, ConstVec q, Vec x, Vec x_tilde);

/// If the column is zero or not finite, or if `always`: column[i] = entry(i), for ascending i. On a
/// device entry() is always called.
void renew(const Execution&, bool always, Vec column,
           const std::function<double(size_t row)>& entry);

/// Modified Gram-Schmidt on the columns of a `rows` x `rank` factor, in order: divides each column
/// by (its norm + 1e-8), then removes its direction from the later ones. Sums in double. A column
/// that depends on earlier ones becomes small or, by rounding, arbitrary; a zero column stays zero.
void orthonormalise(const Execution&, size_t rows, size_t rank, Vec factor);

}  // namespace grapevine
