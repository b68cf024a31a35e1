// The curves of a run: loss, consensus distance (logarithmic), results of tests and values that
// scripts reported, of all ranks together. The x axis shows gradients, or time if no gradients are
// computed. They include the earlier lives of the run. Samples without a loss, and distances of
// zero, are left out.
#pragma once
#include <istream>
#include <string>

#include "app/output/summary.hpp"

namespace grapevine {

/// The curves in the lines of metrics.jsonl, of all lives of a run; other lines are skipped. A life
/// that was killed may have continued beyond the checkpoint at which the next one began: the points
/// of that part are left out.
Curves curves_in(std::istream& lines);

/// A stand-alone SVG document. `gradients_per_pass`: of all ranks, per pass over the data; 0:
/// unknown.
std::string curves_svg(const std::string& title, const Summary&, uint64_t gradients_per_pass = 0);

/// The same as text, 72 columns wide; empty if there are fewer than three samples.
std::string curves_text(const Summary&);

}  // namespace grapevine
