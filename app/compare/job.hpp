// Job: the runs of `grapevine compare`. Cells of methods x lists of options x seeds, from one TOML
// file, all of them checked.
//
//   objective = "quadratic"            # any option of simulate, for all cells
//   partition = ["iid", "label"]       # a list: one cell for each value
//   seeds = [1, 2, 3]                  # or a number: this many, from `seed` on
//   target_suboptimality = 1e-3        # or a target of another measure (below)
//   [[method]]
//   name = "relaysgd"                  # and any option, which replaces the shared one
//   topology = "chain"
//   label = "RelaySGD on a chain"      # default: the name, and what tells equal ones apart
//
// Without [[method]] tables `method` is an option like the others. The key of a list may be a
// plural ("partitions").
#pragma once
#include <limits>
#include <string>
#include <vector>

#include "app/options/config_file.hpp"

namespace grapevine {

struct Cell {
  std::string label;  // of the method's table
  // The label and the chosen values of lists: cells of a group differ only in the seed.
  std::string group;
  // Settings of the file, and defaults for comparisons: samples of the curve, one thread.
  std::vector<ConfigEntry> entries;
  Options options;  // resolved
  std::string id;   // names its files; ends in a hash of all that its run depends on
};

/// The measure of a job's runs: "accuracy" for networks that tell classes apart, "test_loss" for
/// language models and mean squares, "suboptimality" for analytic objectives, "consensus_distance"
/// if ranks only gossip.
struct Measure {
  std::string name;
  bool more_is_better = false;
  bool reached(double value, double target) const {
    return more_is_better ? value >= target : value <= target;
  }
};
Measure measure_of(const ObjectiveSpec&);

struct Job {
  std::string path;
  Measure measure;
  double target = std::numeric_limits<double>::quiet_NaN();  // NaN: none
  std::vector<Cell> cells;                                   // those of a group are adjacent
};

/// Errors (user), with file and line: an unknown key, a value of the wrong type, an empty list, a
/// value or a label twice, a target of another objective, and every error that the run of a cell
/// would report, also about its data set.
Result<Job> read_job(const std::string& path);

/// The cell as a configuration file of `grapevine simulate`.
std::string config_text(const Cell&);

}  // namespace grapevine
