// The runs of a job: each a `grapevine simulate` in a process of its own, many at once. Every
// finished one is kept at once in the job's folder, so that an interruption loses only what is
// going on, and a second start takes what is there.
//
//   ID.toml    the cell, as a configuration file
//   ID.json    its result: {"label", "group", "settings", "wall_seconds", "result"}; the last is
//              what simulate --json printed. It appears whole or not at all
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
  bool reused = false;    // was there already
  std::string complaint;  // of a run that failed
};

struct JobOutcome {
  std::vector<CellOutcome> cells;  // in the job's order
  size_t finished = 0, reused = 0, failed = 0;
  size_t refused = 0;  // of those that failed: as the user's mistake, or diverged
  bool interrupted = false;
};

/// Makes the folder with its parents, and keeps others from comparing there. Errors: world, it
/// cannot be made; user, another process compares there.
Result<FolderLock> lock_results(const std::string& folder);

/// Runs what `folder` does not have, `at_once` (0: one per core) beside each other, with progress
/// on standard error unless `quiet`. An interrupt kills what goes on and is no error, nor is a run
/// that fails, of a loss that is not finite for one: the others go on. Errors: the folder cannot be
/// written. REQUIRES: the folder's lock.
Result<JobOutcome> run_job(const Job&, const std::string& folder, int at_once, bool quiet);

/// What the cell's entries say, with their types.
Json settings_of(const Cell&);

}  // namespace grapevine
