// How a job's runs came to where they ended: the error of each as it fell, and the curves of all.
#pragma once
#include <string>
#include <vector>

#include "app/compare/runs.hpp"

namespace grapevine {

struct ErrorPoint {
  double at_s = 0, bytes = 0, gradients = 0;
  double value = 0;  // of the job's measure
};

/// The samples of a run that have the measure, and its end; `result` is the output of simulate
/// --json.
std::vector<ErrorPoint> error_curve(const Measure&, const Json& result);

/// A field of a table: in quotes where it has a comma, a quote or a line's end.
std::string csv_field(const std::string&);

/// Error against bytes sent and against virtual time; a curve a group, the mean over its seeds.
std::string comparison_svg(const Job&, const JobOutcome&);

/// The same as numbers, a line for each sample of each run.
std::string curves_csv(const Job&, const JobOutcome&);

/// A curve for each rank, if there are samples of ranks: a panel a group, as the mean over seeds;
/// of suboptimality if the job is judged by it, otherwise of the distance from the mean. Empty:
/// there are no such samples.
std::string ranks_svg(const Job&, const JobOutcome&);
/// The same as numbers, a line for each sample of each rank.
std::string ranks_csv(const Job&, const JobOutcome&);

}  // namespace grapevine
