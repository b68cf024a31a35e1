// RunDirectory: where a run is written down. Every file appears whole or not at all.
//
//   run.json            the resolved options, versions, seed; "state": running, then finished,
//                       interrupted, drained or failed
//   metrics.jsonl       a line a sample, an epoch or an event; metrics.jsonl.part while it goes on
//   plan.toml           the plan, where there is one
//   curves.svg          loss, consensus distance, tests, of all lives of the run
//   model.safetensors, model.pt   the averaged model (written by the objective)
//   best/               where it was tested while it trained: the best model, in the same files,
//                       and best.json, what it was judged by
//   checkpoints/        what the run can go on from (checkpoint/)
//   node.key            of a node: what its process signs with, for its owner's eyes alone
#pragma once
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "app/system/folder_lock.hpp"
#include "app/system/growing_file.hpp"
#include "kernels/base/result.hpp"

namespace grapevine {

constexpr char kNodeKeyFile[] = "node.key";

class RunDirectory {
 public:
  /// Makes the folder with its parents and opens the stream, so that an unwritable folder is found
  /// before any work is done. Errors: user, the folder holds a run already; world, the system's
  /// message. After an error the new folder is removed. `taken_up`: the lock of a folder whose
  /// earlier run is continued, after the lines that it has written.
  static Result<RunDirectory> make(const std::string& path,
                                   std::optional<FolderLock> taken_up = {});

  RunDirectory(RunDirectory&&) = default;
  /// An unfinished stream is removed, but where an earlier life has lines in it: for the next one.
  ~RunDirectory();

  const std::string& path() const { return path_; }
  /// A line for the user, where no lock keeps other processes out; else empty.
  const std::string& warning() const { return lock_.warning(); }

  Status write(const std::string& name, const std::string& text) const;

  /// The lines that are in metrics.jsonl.part; none where it cannot be read.
  std::ifstream lines() const;
  /// Adds a line to metrics.jsonl.part, as GrowingFile does.
  Status stream(const std::string& line);
  /// metrics.jsonl, of all lines that were written. Error (world): how many are missing, or what
  /// the system says.
  Status end_stream();

 private:
  RunDirectory(std::string path, FolderLock lock, GrowingFile metrics, bool takes_up)
      : path_(std::move(path)),
        lock_(std::move(lock)),
        metrics_(std::make_unique<GrowingFile>(std::move(metrics))),
        takes_up_(takes_up) {}

  std::string path_;
  FolderLock lock_;                       // no other process goes on with this run
  std::unique_ptr<GrowingFile> metrics_;  // null once it has its name
  bool takes_up_;                         // an earlier life's
};

/// The refusal of a folder whose lock another process has.
Error run_is_taken(const std::string& folder);

/// runs/<UTC time>-<method>-<topology>-<seed>[-<node>], the first of that name that is not there
/// yet, and that is made here: of processes that begin in one second each has its own.
std::string default_run_path(const std::string& method, const std::string& topology, uint64_t seed,
                             const std::string& node = "");

}  // namespace grapevine
