// Job: what `grapevine compare` runs. Cells of methods x lists of options x seeds, read from one
// TOML file, every one of them checked.
//
//   objective = "quadratic"            # any option of simulate, for all cells; a list: one
//   partition = ["iid", "label"]       # cell for each value, and so for every other list
//   seeds = [1, 2, 3]                  # or a number: so many, from seed on
//   target_suboptimality = 1e-3        # or target_accuracy, target_consensus_distance
//   [[method]]
//   name = "relaysgd"                  # and any option, in place of the shared one
//   topology = "chain"
//   label = "RelaySGD on a chain"      # none: the name
//
// Without [[method]] tables `method` is an option like the others. A list may be named in the
// plural ("partitions").
#pragma once
#include <limits>
#include <string>
#include <vector>

#include "app/options/config_file.hpp"

namespace grapevine {

struct Cell {
  std::string label;  // of the method's table
  std::string group;  // the label and what lists chose: cells of a group differ by the seed alone
  // Settings of the file, and defaults for comparing: samples of the curve, one thread.
  std::vector<ConfigEntry> entries;
  Options options;  // resolved
  std::string id;   // names its files; ends in a hash of all that its run depends on
};

/// The measure of a job's runs: "accuracy" for networks, "suboptimality" for analytic objectives,
/// "consensus_distance" if ranks only gossip.
struct Measure {
  std::string name;
  bool more_is_better = false;
  bool reached(double value, double target) const {
    return more_is_better ? value >= target : value <= target;
  }
};
Measure measure_of(const std::string& objective);

struct Job {
  std::string path;
  Measure measure;
  double target = std::numeric_limits<double>::quiet_NaN();  // NaN: none
  std::vector<Cell> cells;                                   // those of a group stand together
};

/// Errors (user), with file and line: an unknown key, a value of the wrong type, an empty list, a
/// value or a label twice, a target of another objective, and whatever the run of a cell would
/// refuse, its data set included.
Result<Job> read_job(const std::string& path);

/// The cell as a configuration file of `grapevine simulate`.
std::string config_text(const Cell&);

}  // namespace grapevine
