// Gossip matrices: with which weights the ranks of a graph average in a synchronous round.
//
//   x_i  becomes  W_ii x_i + sum over neighbours j of W_ij x_j          W = W^T, rows add up to 1
//
// `metropolis`   W_ij = 1 / (1 + max(d_i, d_j)), d the degrees (Xiao, Boyd, Kim, "Distributed
//                average consensus with least-mean-square deviation", JPDC 2007)
// `lazy`         half of that and half of the identity: exact diffusion, never an eigenvalue below
// 0 `uniform:W`    W_ij = W on every edge
//
// An edge counts once, whatever its multiplicity, rate and trees.
#pragma once
#include <string>
#include <vector>

#include "kernels/base/result.hpp"
#include "topologies/topology.hpp"

namespace grapevine {

struct GossipMatrix {
  std::vector<double> edge;  // W_ij > 0, one per edge of the topology
  std::vector<double> self;  // W_ii >= 0, one per rank
};

/// By a spec: metropolis, 1 / (1 + the larger degree of the two ends); lazy, half of that and half
/// of itself, exact diffusion; uniform:W, W on every edge. Refuses an unknown spec, and a W that is
/// not positive or leaves a rank less than nothing.
Result<GossipMatrix> gossip_matrix(const std::string& spec, const Topology&);

/// The eigenvalues of W besides the 1 of the constant vector: the largest and the least of them.
/// One rank alone has none: both are 0.
struct MatrixSpectrum {
  double second = 0, least = 0;
};

/// To 1e-9 up to 512 ranks. Beyond, 1 - second keeps 1e-9 relative, and `least` is iterated: at
/// most some 1e-5 too large. Every W_ij must be positive, as gossip_matrix makes them.
Result<MatrixSpectrum> matrix_spectrum(const Topology&, const GossipMatrix&);

/// The factor that makes x + gamma (W - 1) x average fastest: 2 / ((1 - second) + (1 - least)).
double best_gamma(MatrixSpectrum);

}  // namespace grapevine
