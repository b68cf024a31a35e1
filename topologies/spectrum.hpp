// Spectrum: what a graph costs. chi1 and chi2 of the rate-weighted Laplacian.
//
//   Lambda = sum over edges of rate_ij (e_i - e_j)(e_i - e_j)^T
//   chi1 = 1 / lambda_2(Lambda)                                               inverse algebraic connectivity, a time
//   chi2 = 1/2 max over edges of (e_i - e_j)^T Lambda^+ (e_i - e_j)           half the largest effective resistance
//
// Nabli, Belilovsky, Oyallon, "A2CiD2", NeurIPS 2023, arXiv:2306.08289, section 3.
#pragma once
#include <span>
#include <vector>

#include "topologies/topology.hpp"

namespace grapevine {

struct Spectrum {
  double chi1 = 0;
  double chi2 = 0;
  std::vector<double> eigenvalues;  // ascending, the zero included; empty above the dense limit
};

/// Dense up to 512 ranks (all eigenvalues), closed forms where the graph and its rates are ones, sparse otherwise.
/// `rates` has one entry per edge of the topology (its own when empty). To 1e-9 relative.
Spectrum spectrum(const Topology&, std::span<const double> rates = {});

}  // namespace grapevine
