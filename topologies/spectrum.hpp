// Spectrum: what a graph costs. chi1 and chi2 of the rate-weighted Laplacian.
//
//   Lambda = sum over edges of rate_ij (e_i - e_j)(e_i - e_j)^T
//   chi1 = 1 / lambda_2(Lambda)
//   chi2 = 1/2 max over edges of (e_i - e_j)^T Lambda^+ (e_i - e_j)
//
// Both are times: chi1 is the inverse of the algebraic connectivity, chi2 half the largest
// effective resistance of an edge.
//
// Nabli, Belilovsky, Oyallon, "A2CiD2", NeurIPS 2023, arXiv:2306.08289, section 3.
#pragma once
#include <span>
#include <vector>

#include "kernels/base/result.hpp"
#include "topologies/topology.hpp"

namespace grapevine {

constexpr int kDenseRanks = 512;  // up to here every eigenvalue is computed

struct Spectrum {
  double chi1 = 0;
  double chi2 = 0;
  std::vector<double> eigenvalues;  // ascending, the zero included; empty above kDenseRanks
};

/// chi1 and chi2 to 1e-9 relative, whatever the spread of the rates: closed forms where the graph
/// and its rates are ones, sparse elimination otherwise. `rates` has one entry per edge of the
/// topology (its own when empty). One rank alone has chi1 = chi2 = 0. Rates may be measured by
/// others: where one is not positive and finite (a graph that they disconnect), or they are so far
/// apart that the solver finds no finite answer, that is said in one line.
Result<Spectrum> spectrum(const Topology&, std::span<const double> rates = {});

}  // namespace grapevine
