// Spectrum: chi1 and chi2 of the rate-weighted Laplacian, which bound the cost of gossip on a
// graph.
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

/// chi1 and chi2 with a relative error of 1e-9, for any spread of the rates. Uses closed forms if
/// they exist for the graph and its rates, otherwise sparse elimination. `rates` has one entry per
/// edge (empty: the topology's own rates). A single rank has chi1 = chi2 = 0. Others may have
/// measured the rates. Error: a rate is not positive and finite (so the graph is disconnected), or
/// the rates are so far apart that the solver finds no finite answer.
Result<Spectrum> spectrum(const Topology&, std::span<const double> rates = {});

}  // namespace grapevine
