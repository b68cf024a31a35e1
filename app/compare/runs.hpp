// The runs of a job: each is a `grapevine simulate` in its own process, several at a time. The
// result of a finished run is stored at once in the job's folder. So an interruption loses only
// unfinished runs, and a second start reuses the stored ones.
//
//   ID.toml    the cell, as a configuration file
//   ID.json    its result: {"label", "group", "settings", "wall_seconds", "result"}; the last is
//              the output of simulate --json. It appears whole or not at all
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/compare/job.hpp"
#include "app/output/json_output.hpp"
#include "app/system/folder_lock.hpp"

namespace grapevine {

struct CellOutcome {
  Json record;            // ID.json; null: not finished
  bool reused = false;    // it was stored before
  std::string complaint;  // of a run that failed
};

struct JobOutcome {
  std::vector<CellOutcome> cells;  // in the job's order
  size_t finished = 0, reused = 0, failed = 0;
  size_t refused = 0;  // failed by the user's mistake or by divergence
  bool interrupted = false;
};

/// Makes the folder with its parents, and locks it against other comparisons. Errors: world, it
/// cannot be made; user, another process compares there.
Result<FolderLock> lock_results(const std::string& folder);

/// Runs the cells that are not in `folder`, `at_once` (0: one per core) at a time, with progress on
/// standard error unless `quiet`. An interrupt kills the running cells and is no error. A run that
/// fails (a loss that is not finite, say) is no error either: the others continue. Error: the
/// folder cannot be written. REQUIRES: the folder's lock.
Result<JobOutcome> run_job(const Job&, const std::string& folder, int at_once, bool quiet);

/// The entries of the cell, with their types.
Json settings_of(const Cell&);

}  // namespace grapevine
