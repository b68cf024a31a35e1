// Computes chi1 and chi2 for any connected graph and any positive rates. Used only in topologies/:
// spectrum() uses it if no closed form fits, at every size.
//
//   chi1   the largest eigenvalue of Lambda^+, by Lanczos with full reorthogonalisation
//   chi2   from every edge's resistance, by one elimination (star_mesh.hpp)
#pragma once
#include <span>

#include "topologies/spectrum.hpp"

namespace grapevine {

/// Computes chi1 and chi2 to 1e-9 relative; leaves the eigenvalues empty. At least two ranks.
/// Error: Lanczos meets infinities or does not converge.
Result<Spectrum> spectrum_sparse(const Topology&, std::span<const double> rates);

}  // namespace grapevine
