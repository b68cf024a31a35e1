// chi1 and chi2 of a graph alone: all that constants are made of. They are solved for whenever a
// rate has moved, and the other eigenvalues would take most of the time (20 ms at 512 ranks).
#pragma once
#include <span>

#include "topologies/spectrum.hpp"

namespace grapevine {

/// As spectrum(), to the bit; its eigenvalues may be empty.
Result<Spectrum> spectrum_chi(const Topology&, std::span<const double> rates);

}  // namespace grapevine
