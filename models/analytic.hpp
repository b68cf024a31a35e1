// The analytic objectives: problems without data whose answer is known in closed form.
//
// All compute in fp64, answer at once and need no LibTorch. Protocols and rules are measured on
// them. A gradient and its noise are pure functions of (seed, rank, index, x). The problem is a
// pure function of (seed, ranks), so every node draws the same problem without a message.
//
// consensus   No gradients. Rank i starts at a Gaussian point, N(0, 1) per coordinate.
// matrix      Consensus with one matrix, rows x columns, per rank: the consensus experiment of
//             Vogels, Karimireddy, Jaggi, NeurIPS 2020 (arXiv 2008.01425). entries gaussian:
//             N(0, 1). With spectrum_decay p > 0, c k^-p replaces its singular values;
//             c makes the sum of squares rows x columns. entries sines: nothing is random,
//             X_i[a][b] = sin(1 + 1.7 a + 2.3 b + 0.9 i (a + 1) + 0.37 i b^2), all from 0.
// quadratic   The random quadratics of Vogels et al., NeurIPS 2021 (arXiv 2110.04175):
//             f_i(x) = |A_i x - b_i|^2. As in the paper, the gradient is A_i' (A_i x - b_i), half
//             the slope. A_i is Gaussian; d evenly spaced values from mu to 1 replace its singular
//             values. zeta2 = mean_i |A_i' (A_i x* - b_i)|^2, |x*| = r0, start at 0. evaluate:
//             f(x) - f(x*), where f is the mean of the f_i. It is computed as a form in x - x*,
//             so it resolves squares of rounding errors. (The paper's noise s is s / sqrt(d) per
//             coordinate here.)
//             mu = 1: A_i' A_i = I, any dim. mu = 0: no curvature, the gradient is only noise:
//             the white-noise model of Nabli, Belilovsky, Oyallon, NeurIPS 2023.
// diagonal    f_i(x) = 1/2 (x - x*_i)' A (x - x*_i), A diagonal with curvatures evenly spaced from
//             mu to 1, the same for all ranks; sum_i x*_i - x* = 0, zeta2 = mean_i |x*_i - x*|^2,
//             x* is N(0, 1) per coordinate. evaluate: f(x) - f(x*).
// scalar      f_i(x) = 1/2 a_i (x - b_i)^2, a_i = 1/4 + 3/4 i / (n - 1), b_i = (7 i mod n) -
//             (n - 1) / 2. Nothing is random, so every number can be checked exactly; n = 16
//             has x* = 0.18. evaluate: |x - x*|.
// mean        Distributed mean estimation: rank i draws s = m_i + N(0, I) per gradient. Its
//             gradient is x - s, so x - gradient is the sample. m_i = x* + offsets of sum 0 and
//             mean square zeta2, |x*| = r0. evaluate: |x - x*|^2 / dim.
//
// Every rank starts at 0, except in consensus and matrix. Their evaluate is 0 everywhere.
#pragma once
#include <memory>

#include "models/objective.hpp"

namespace grapevine {

/// Errors (user): a size below 1 or too large for the memory; zeta2 with one rank; a number out of
/// range; an unknown value of entries.
Result<std::unique_ptr<Objective>> make_consensus(const ObjectiveSpec&);
Result<std::unique_ptr<Objective>> make_matrix(const ObjectiveSpec&);
Result<std::unique_ptr<Objective>> make_quadratic(const ObjectiveSpec&);
Result<std::unique_ptr<Objective>> make_diagonal(const ObjectiveSpec&);
Result<std::unique_ptr<Objective>> make_scalar(const ObjectiveSpec&);
Result<std::unique_ptr<Objective>> make_mean(const ObjectiveSpec&);

}  // namespace grapevine
