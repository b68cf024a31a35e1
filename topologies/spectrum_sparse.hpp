// The general way to chi1 and chi2, for any connected graph and any positive rates. Internal to
// this room; spectrum() takes it whenever no closed form fits, at every size.
//
//   chi1   Lanczos on Lambda^+, whose largest eigenvalue it is, with full reorthogonalisation
//   chi2   every edge's resistance, from one elimination (star_mesh.hpp)
#pragma once
#include <span>

#include "topologies/spectrum.hpp"

namespace grapevine {

/// Fills chi1 and chi2 to 1e-9 relative; leaves the eigenvalues empty. Two ranks at least. Fails
/// where Lanczos meets infinities or does not converge.
Result<Spectrum> spectrum_sparse(const Topology&, std::span<const double> rates);

}  // namespace grapevine
