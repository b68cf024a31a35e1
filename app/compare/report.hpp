// The report of `grapevine compare`: figures of every cell and their means over the seeds of each
// group, as a table and as JSON.
#pragma once
#include <string>
#include <vector>

#include "app/compare/runs.hpp"

namespace grapevine {

/// The runs of a group, which differ only in the seed.
struct GroupFigures {
  std::string group, label, pacing;
  Json settings;                     // without the seed
  size_t runs = 0, reached = 0;      // of finished runs; of those that reached the target
  std::vector<MeanAndDeviation> of;  // by figure; NaN: no run has it
};

/// Among groups that differ only in the learning rate: the group with the best result.
struct BestStepSize {
  std::string label;
  Json settings;  // without the rate
  double lr = 0;
  size_t group = 0;     // its index
  bool at_end = false;  // the smallest or the largest tried: a better one may lie beyond
};

struct Comparison {
  std::string folder;
  std::vector<std::vector<double>> cells;  // [cell][figure]; NaN: none
  std::vector<GroupFigures> groups;        // those with a finished run
  std::vector<BestStepSize> best;          // if rates were varied
};

Comparison compare_cells(const Job&, const JobOutcome&, const std::string& folder);

void print_comparison(const Job&, const JobOutcome&, const Comparison&);

/// One line per run with its labels and figures; a field is empty if the run has no such figure.
std::string comparison_csv(const Job&, const Comparison&);

Json comparison_json(const Job&, const JobOutcome&, const Comparison&);

}  // namespace grapevine
