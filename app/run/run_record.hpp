// RunRecord: records one run: progress on standard error, the run directory, and its files at the
// end.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "app/checkpoint/checkpoint_thread.hpp"
#include "app/checkpoint/resume.hpp"
#include "app/metrics/event_file.hpp"
#include "app/options/options.hpp"
#include "app/output/curves.hpp"
#include "app/output/progress.hpp"
#include "app/output/run_directory.hpp"
#include "app/run/execute.hpp"
#include "app/run/interrupts.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

/// --out, or the default if it is empty and the run is saved; empty: not saved.
std::string run_path(const Options&, const std::string& node = "");

class RunRecord {
 public:
  /// `directory`: empty: none. Writes run.json ("running") and the plan. The run continues from
  /// `Beginning`, and its ranks are saved to the directory as the options say. Errors: the
  /// directory's.
  static Result<std::unique_ptr<RunRecord>> begin(const char* command, const Options&,
                                                  const Objective&, const std::string& directory,
                                                  Beginning, CheckpointThread::KeptOf = {});
  ~RunRecord();  // if the run did not end, an exception ended it: run.json says "failed"

  const Watch& watch() const { return watch_; }
  std::string directory() const { return directory_ ? directory_->path() : std::string(); }

  /// Ends the progress line, before a report is printed, and adds the curves of the run's earlier
  /// lives to the summary.
  void complete(Summary&);

  /// Writes metrics, curves, the averaged model, and run.json with `result` (a JSON text), in this
  /// order. So with a run.json that says "finished" all files are complete; if the model could not
  /// be written it says "failed". A failed run has no model. From the first Ctrl+C on it says
  /// "interrupted", however the process ends. Errors: what could not be written, also of the last
  /// checkpoint of a run that is to come back.
  Status finish(const Summary&, Objective&, const std::string& result);

  /// The run ends with an error, usually before it began: run.json says "failed", and the same
  /// command may be tried again. Returns the error.
  Error refuse(const Error&);

 private:
  RunRecord(const char* command, const Options&, const std::string& description);
  std::string run_json(const char* state, const std::string& result,
                       const std::string& failure = "") const;
  void stream(const std::string& line);
  Status begin_events();
  void tell_reached(const RanksReport&);
  void tell_events(const RunSample&);
  void tell_events(const TestPoint&);
  void order_tests();
  void keep_best(const Score&, Objective&, ConstVec x);
  void tell_events(const RunSample&, const RankSample&);
  void tell_events(const RanksReport&);
  Result<EventFile*> events_of(int rank);
  void add_events(int rank, uint64_t step, const EventFile::Scalars&);
  Status end_events(const Summary&);
  void alarm(const Status& written);
  Status write_all(const Summary&, Objective&);
  Status record_end(const std::string& record, const Error* why);
  Status open(const std::string& directory, std::optional<FolderLock> taken_up);
  void save(uint64_t epoch, RunIdentity, CheckpointThread::KeptOf);

  const char* command_;
  Options options_;
  std::string description_, started_;
  std::optional<RunDirectory> directory_;
  Curves earlier_;                            // of the earlier lives of the run
  std::optional<InterruptNote> interrupted_;  // for run.json, in case of Ctrl+C
  std::optional<Progress> progress_;
  std::optional<EventFile> events_;       // with --tensorboard: of the mean
  std::map<int, EventFile> rank_events_;  // by rank
  bool without_rank_events_ = false;      // a file could not be made, which was reported
  bool has_begun_ = false;                // its ranks have a graph
  bool is_over_ = false;                  // run.json says how it ended
  Mutex mutex_;  // for the sinks of the run and the thread that writes checkpoints
  std::unique_ptr<CheckpointThread> checkpoints_;
  Watch watch_;
};

}  // namespace grapevine
