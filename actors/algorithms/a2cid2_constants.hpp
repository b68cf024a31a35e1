// The constants of A2CiD2 (a2cid2.hpp) for a graph.
#pragma once
#include "kernels/base/result.hpp"
#include "topologies/spectrum.hpp"

namespace grapevine {

struct A2cid2Constants {
  double eta = 0;  // per unit of time of the rates
  double alpha_tilde = 0.5;
};

/// The optimal ones (section 3): eta = 1 / (2 sqrt(chi1 chi2)), alpha = 1/2, alpha~ = 1/2 sqrt(chi1
/// / chi2). REQUIRES: two ranks. Error: they are not positive and finite.
Result<A2cid2Constants> a2cid2_constants(const Spectrum& graph);

/// For pairing without repeats on a graph of mean degree d (of ranks with more than one neighbour):
/// the averaging walk always leaves its last partner and spreads d / (d-1) times faster, so the
/// slow modes see chi1 (d-1) / d. eta is multiplied and alpha~ divided by s = sqrt(d / (d-1)).
A2cid2Constants without_repeats(A2cid2Constants, const Topology&);

}  // namespace grapevine
