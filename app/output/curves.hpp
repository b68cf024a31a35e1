// The curves of a run: loss, consensus distance (logarithmic), what tests found and what scripts
// have reported, of all ranks together, against gradients, or against time where no gradient is
// computed. Samples without a loss, and distances that are zero, are left out.
#pragma once
#include <string>
#include <vector>

#include "app/output/summary.hpp"

namespace grapevine {

/// A stand-alone SVG document.
std::string curves_svg(const std::string& title, const Summary&);

/// The same in letters, 72 columns wide; empty with fewer than three samples.
std::string curves_text(const Summary&);

}  // namespace grapevine
