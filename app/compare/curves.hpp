// The curves of a job's runs: the error of each run over time, as graphics and as numbers.
#pragma once
#include <string>
#include <vector>

#include "app/compare/runs.hpp"

namespace grapevine {

struct ErrorPoint {
  double at_s = 0, bytes = 0, gradients = 0;
  double value = 0;  // in the job's measure
};

/// The samples of a run that have the measure, and its final value. `result` is the output of
/// simulate --json.
std::vector<ErrorPoint> error_curve(const Measure&, const Json& result);

/// A field of a table: quoted if it has a comma, a quote or a line break.
std::string csv_field(const std::string&);

/// Error against bytes sent and against virtual time: one curve per group, the mean over its seeds.
std::string comparison_svg(const Job&, const JobOutcome&);

/// The same as numbers, one line for each sample of each run.
std::string curves_csv(const Job&, const JobOutcome&);

/// A curve for each rank, if there are samples of ranks: one panel per group, the mean over seeds.
/// It shows the suboptimality if that is the job's measure, otherwise the distance from the mean.
/// Empty: there are no such samples.
std::string ranks_svg(const Job&, const JobOutcome&);
/// The same as numbers, one line for each sample of each rank.
std::string ranks_csv(const Job&, const JobOutcome&);

}  // namespace grapevine
