// RunRecord: one run on paper. Progress on standard error while it goes on, the run directory, and
// what is written there at the end.
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

/// --out, or the default where there is none and a run is to be saved; empty: it is not.
std::string run_path(const Options&, const std::string& node = "");

class RunRecord {
 public:
  /// `directory`: empty for none. Writes run.json ("running") and the plan. The run goes on from
  /// where it begins, and its ranks are saved into the directory as the options say. Errors: the
  /// directory's.
  static Result<std::unique_ptr<RunRecord>> begin(const char* command, const Options&,
                                                  const Objective&, const std::string& directory,
                                                  Beginning, CheckpointThread::KeptOf = {});
  ~RunRecord();  // of a run that has not ended: an exception has, and run.json says "failed"

  const Watch& watch() const { return watch_; }
  std::string directory() const { return directory_ ? directory_->path() : std::string(); }

  /// Ends the progress line, before a report is printed, and gives the summary the curves of the
  /// run's earlier lives.
  void complete(Summary&);

  /// Metrics, curves, the averaged model, and run.json with `result` (a JSON text), in this order:
  /// a run.json that says "finished" stands beside whole files, and one beside a model that could
  /// not be written says "failed". A failed run has no model. From the first Ctrl+C on it says
  /// "interrupted", however the process ends.
  Status finish(const Summary&, Objective&, const std::string& result);

  /// The run ends by an error, before it began in most cases: run.json says "failed", and the same
  /// command may try again. Returns the error.
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
  Status open(const std::string& directory, std::optional<FolderLock> taken_up);
  void save(uint64_t epoch, RunIdentity, CheckpointThread::KeptOf);

  const char* command_;
  Options options_;
  std::string description_, started_;
  std::optional<RunDirectory> directory_;
  Curves earlier_;                            // of the lives of the run before this one
  std::optional<InterruptNote> interrupted_;  // in run.json, should Ctrl+C come
  std::optional<Progress> progress_;
  std::optional<EventFile> events_;       // with --tensorboard: the mean's
  std::map<int, EventFile> rank_events_;  // by rank
  bool without_rank_events_ = false;      // one could not be made, and that has been told
  bool has_begun_ = false;                // its ranks have a graph
  bool is_over_ = false;                  // run.json says how it has ended
  Mutex mutex_;  // who speaks: the run's sinks, or the thread that writes checkpoints
  std::unique_ptr<CheckpointThread> checkpoints_;
  Watch watch_;
};

}  // namespace grapevine
