// The objectives without data: a consensus problem, and quadratics with a minimum that is known in
// closed form.
//
// Both are fp64, answer at once and need no LibTorch. They are what protocols are measured on.
//
// Consensus: no gradients; rank i starts at a Gaussian point, N(0, 1) per coordinate, and gossip
// has to find the mean.
//
// Quadratics: f_i(x) = 1/2 (x - x*_i)' A (x - x*_i), A diagonal with curvatures evenly spaced from
// mu to 1 (all mu when there is one coordinate; all 0 when mu is 0: then the gradient is pure
// noise, the white-noise model of Nabli, Belilovsky, Oyallon, NeurIPS 2023). The optima x*_i = x* +
// o_i have Gaussian offsets with sum_i o_i = 0 and mean_i |o_i|^2 = zeta2, the heterogeneity knob
// of the random quadratics of Vogels et al., NeurIPS 2021. Every rank starts at 0, x* is N(0, 1)
// per coordinate, so the mean of the f_i is smallest at x* and there f(x) - f(x*) = 1/2 (x - x*)' A
// (x - x*). The stochastic gradient is A (x - x*_i) + noise N(0, I), its noise a pure function of
// (seed, rank, index).
#pragma once
#include <memory>

#include "models/objective.hpp"

namespace grapevine {

/// Errors (user): dim below 1, zeta2 with a single rank, a noise, zeta2 or mu out of range.
Result<std::unique_ptr<Objective>> make_consensus(const ObjectiveSpec&);
Result<std::unique_ptr<Objective>> make_quadratic(const ObjectiveSpec&);

}  // namespace grapevine
