// Gossip matrices: the weights with which the ranks of a graph average in a synchronous round.
//
//   x_i  becomes  W_ii x_i + sum over neighbours j of W_ij x_j          W = W^T, rows add up to 1
//
// `metropolis`   W_ij = 1 / (1 + max(d_i, d_j)), d the degrees (Xiao, Boyd, Kim, "Distributed
//                average consensus with least-mean-square deviation", JPDC 2007)
// `lazy`         the mean of metropolis and the identity: exact diffusion; no eigenvalue below 0
// `uniform:W`    W_ij = W on every edge
//
// An edge counts once, for any multiplicity, rate and trees.
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

/// The matrix for a spec: metropolis, lazy or uniform:W. Refuses an unknown spec, and a W that is
/// not positive or gives a rank a negative weight for itself.
Result<GossipMatrix> gossip_matrix(const std::string& spec, const Topology&);

/// The eigenvalues of W besides the 1 of the constant vector: the largest and the smallest. A
/// single rank has none: both are 0.
struct MatrixSpectrum {
  double second = 0, least = 0;
};

/// To 1e-9 up to 512 ranks. Above, 1 - second keeps 1e-9 relative, and `least` is iterated: at most
/// about 1e-5 too large. Every W_ij must be positive, as in the result of gossip_matrix.
Result<MatrixSpectrum> matrix_spectrum(const Topology&, const GossipMatrix&);

/// The factor that makes x + gamma (W - 1) x average fastest: 2 / ((1 - second) + (1 - least)).
double best_gamma(MatrixSpectrum);

}  // namespace grapevine
