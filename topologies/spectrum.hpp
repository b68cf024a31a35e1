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

/// chi1 and chi2 with a relative error of 1e-9, whatever the spread of the rates: closed forms if
/// there is one for the graph and its rates, sparse elimination otherwise. `rates` has one entry
/// per edge of the topology (its own rates when empty). A single rank has chi1 = chi2 = 0. Rates
/// may be measured by others: if one is not positive and finite (so the graph is disconnected), or
/// if they are so far apart that the solver finds no finite answer, one line says so.
Result<Spectrum> spectrum(const Topology&, std::span<const double> rates = {});

}  // namespace grapevine
