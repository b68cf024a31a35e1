// Only chi1 and chi2 of a graph: constants need nothing else. They are recomputed whenever a rate
// changes, and the other eigenvalues would take most of the time (20 ms at 512 ranks).
#pragma once
#include <span>

#include "topologies/spectrum.hpp"

namespace grapevine {

/// The same bits as spectrum(); the eigenvalues may be empty.
Result<Spectrum> spectrum_chi(const Topology&, std::span<const double> rates);

}  // namespace grapevine
