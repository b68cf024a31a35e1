// The objectives without data: problems whose answer is known in closed form.
//
// All are fp64, answer at once and need no LibTorch. They are what protocols and rules are measured
// on. A gradient and its noise are pure functions of (seed, rank, index, x); the problem itself is
// one of (seed, ranks), so every node draws the same one without a message.
//
// consensus   no gradients; rank i starts at a Gaussian point, N(0, 1) per coordinate.
// matrix      the same with one matrix, rows x columns, per rank: the consensus experiment of
//             Vogels, Karimireddy, Jaggi, NeurIPS 2020 (arXiv 2008.01425). entries gaussian:
//             N(0, 1); with spectrum_decay p > 0 its singular values are replaced by c k^-p,
//             c such that sum of squares = rows x columns. entries sines: no chance at all,
//             X_i[a][b] = sin(1 + 1.7 a + 2.3 b + 0.9 i (a + 1) + 0.37 i b^2), all from 0.
// quadratic   the random quadratics of Vogels et al., NeurIPS 2021 (arXiv 2110.04175):
//             f_i(x) = |A_i x - b_i|^2, its gradient taken as A_i' (A_i x - b_i), half the slope,
//             as there; A_i Gaussian with its singular values replaced by d evenly spaced ones from
//             mu to 1. zeta2 = mean_i |A_i' (A_i x* - b_i)|^2, |x*| = r0, start at 0. evaluate:
//             f(x) - f(x*) for f the mean of the f_i, as a form in x - x*, so that it resolves
//             squares of roundings. (Their noise s is s / sqrt(d) per coordinate here.)
//             mu = 1: A_i' A_i = I, any dim. mu = 0: no curvature, the gradient is noise alone:
//             the white-noise model of Nabli, Belilovsky, Oyallon, NeurIPS 2023.
// diagonal    f_i(x) = 1/2 (x - x*_i)' A (x - x*_i), A diagonal with curvatures evenly spaced from
//             mu to 1, alike for all ranks; sum_i x*_i - x* = 0, zeta2 = mean_i |x*_i - x*|^2,
//             x* is N(0, 1) per coordinate. evaluate: f(x) - f(x*).
// scalar      f_i(x) = 1/2 a_i (x - b_i)^2, a_i = 1/4 + 3/4 i / (n - 1), b_i = (7 i mod n) -
//             (n - 1) / 2: nothing is drawn, so every figure can be checked to the digit; n = 16
//             has x* = 0.18. evaluate: |x - x*|.
// mean        distributed mean estimation: rank i draws s = m_i + N(0, I) per gradient, and its
//             gradient is x - s, so x - gradient is the sample. m_i = x* + offsets of sum 0 and
//             mean square zeta2, |x*| = r0. evaluate: |x - x*|^2 / dim.
//
// Every rank starts at 0 but for consensus and matrix, whose evaluate is 0 everywhere.
#pragma once
#include <memory>

#include "models/objective.hpp"

namespace grapevine {

/// Errors (user): a size below 1 or too large for the memory; zeta2 with a single rank; a number
/// out of range; unknown entries.
Result<std::unique_ptr<Objective>> make_consensus(const ObjectiveSpec&);
Result<std::unique_ptr<Objective>> make_matrix(const ObjectiveSpec&);
Result<std::unique_ptr<Objective>> make_quadratic(const ObjectiveSpec&);
Result<std::unique_ptr<Objective>> make_diagonal(const ObjectiveSpec&);
Result<std::unique_ptr<Objective>> make_scalar(const ObjectiveSpec&);
Result<std::unique_ptr<Objective>> make_mean(const ObjectiveSpec&);

}  // namespace grapevine
