// The curves of a run: loss, consensus distance (logarithmic), what tests found and what scripts
// have reported, of all ranks together, against gradients, or against time where no gradient is
// computed. They begin with the earlier lives of the run. Samples without a loss, and distances
// that are zero, are left out.
#pragma once
#include <istream>
#include <string>

#include "app/output/summary.hpp"

namespace grapevine {

/// Those in the lines of metrics.jsonl, of all lives of a run; other lines are left out. A life
/// that ended suddenly may have gone on beyond the checkpoint at which the next one began: of that
/// there are no points.
Curves curves_in(std::istream& lines);

/// A stand-alone SVG document. `gradients_per_pass`: of all ranks over the data; 0: there are none.
std::string curves_svg(const std::string& title, const Summary&, uint64_t gradients_per_pass = 0);

/// The same in letters, 72 columns wide; empty with fewer than three samples.
std::string curves_text(const Summary&);

}  // namespace grapevine
