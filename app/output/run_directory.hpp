// RunDirectory: the folder that records a run. Every file in it is complete or absent.
//
//   run.json            the resolved options, versions, seed; "state": running, then finished,
//                       interrupted, drained, stopped, incomplete or failed
//   metrics.jsonl       a line per sample, test, epoch, event or report of a script;
//                       metrics.jsonl.part during the run
//   plan.toml           the plan, if there is one
//   curves.svg          loss, consensus distance, tests, of all lives of the run
//   model.safetensors, model.pt   the averaged model (written by the objective)
//   best/               if it was tested during the run: the best model, in the same files, and
//                       best.json with its score
//   checkpoints/        from which the run can resume (checkpoint/)
//   node.key            of a node: the key of its process, which only its owner may read
#pragma once
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "app/system/folder_lock.hpp"
#include "app/system/growing_file.hpp"
#include "kernels/base/descriptor.hpp"
#include "kernels/base/result.hpp"

namespace grapevine {

constexpr char kNodeKeyFile[] = "node.key";

class RunDirectory {
 public:
  /// Makes the folder with its parents and opens the stream, so that an unwritable folder is found
  /// before any work is done. Errors: user, the folder already has a run; world, the system's
  /// message. After an error the new folder is removed. `taken_up`: the lock of a folder whose
  /// earlier run continues; new lines follow its lines.
  static Result<RunDirectory> make(const std::string& path,
                                   std::optional<FolderLock> taken_up = {});

  /// Whether make() is likely to succeed. Makes nothing. Errors: as make(), without the lock.
  static Status may_be_made(const std::string& path, bool takes_up);

  RunDirectory(RunDirectory&&) = default;
  /// Removes an unfinished stream, unless an earlier life has lines in it, for the next one.
  ~RunDirectory();

  const std::string& path() const { return path_; }
  /// A line for the user, if no lock keeps other processes out; else empty.
  const std::string& warning() const { return lock_.warning(); }

  Status write(const std::string& name, const std::string& text) const;
  /// run.json. At its end a run writes it also on a full disk: room for it is reserved.
  Status write_record(const std::string& text);

  /// The lines in metrics.jsonl.part; none if it cannot be read.
  std::ifstream lines() const;
  /// Adds a line to metrics.jsonl.part, as GrowingFile does.
  Status stream(const std::string& line);
  /// Completes metrics.jsonl from all written lines. Error (world): how many are missing, or the
  /// system's message.
  Status end_stream();

 private:
  RunDirectory(std::string path, FolderLock lock, GrowingFile metrics, bool takes_up,
               Descriptor reserve)
      : path_(std::move(path)),
        lock_(std::move(lock)),
        metrics_(std::make_unique<GrowingFile>(std::move(metrics))),
        takes_up_(takes_up),
        reserve_(std::move(reserve)) {}

  std::string path_;
  FolderLock lock_;                       // keeps other processes out of this run
  std::unique_ptr<GrowingFile> metrics_;  // null once it has its final name
  bool takes_up_;                         // it has the lines of an earlier life
  Descriptor reserve_;                    // room for the last record
};

/// The error for an --out that cannot be made or written.
Error unwritable(const std::string& path, const std::string& why);
/// The error for a folder whose lock another process has.
Error run_is_taken(const std::string& folder);

/// The folder of runs whose commands name none.
std::string default_run_folder();

/// runs/<UTC time>-<method>-<topology>-<seed>[-<node>]: the first such name that is free. The
/// folder is made here: processes that begin in the same second get different ones.
std::string default_run_path(const std::string& method, const std::string& topology, uint64_t seed,
                             const std::string& node = "");

}  // namespace grapevine
