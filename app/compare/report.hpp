// What `grapevine compare` says in the end: figures of every cell, their means over the seeds of
// each group, as a table and as JSON.
#pragma once
#include <string>
#include <vector>

#include "app/compare/runs.hpp"

namespace grapevine {

/// The runs of a group: the same but for the seed.
struct GroupFigures {
  std::string group, label;
  Json settings;                     // without the seed
  size_t runs = 0, reached = 0;      // finished; that reached the target
  std::vector<MeanAndDeviation> of;  // by figure; NaN where no run has it
};

struct Comparison {
  std::string folder;
  std::vector<std::vector<double>> cells;  // [cell][figure]; NaN: none
  std::vector<GroupFigures> groups;        // with a finished run
};

Comparison compare_cells(const Job&, const JobOutcome&, const std::string& folder);

void print_comparison(const Job&, const JobOutcome&, const Comparison&);

Json comparison_json(const Job&, const JobOutcome&, const Comparison&);

}  // namespace grapevine
