// The constants of A2CiD2 (a2cid2.hpp) that a graph asks for.
#pragma once
#include "kernels/base/result.hpp"
#include "topologies/spectrum.hpp"

namespace grapevine {

struct A2cid2Constants {
  double eta = 0;  // per unit of the time that the rates are in
  double alpha_tilde = 0.5;
};

/// Section 3, the optimal ones: eta = 1 / (2 sqrt(chi1 chi2)), alpha = 1/2, alpha~ = 1/2 sqrt(chi1
/// / chi2). Two ranks at least; fails where they are not positive and finite.
Result<A2cid2Constants> a2cid2_constants(const Spectrum& graph);

/// For pairing without repeats on a graph of mean degree d (of ranks with more than one neighbour):
/// the averaging walk leaves its last partner with certainty and spreads d / (d-1) times faster, so
/// the slow modes see chi1 (d-1) / d: eta times s, alpha~ over s, s = sqrt(d / (d-1)).
A2cid2Constants without_repeats(A2cid2Constants, const Topology&);

}  // namespace grapevine
