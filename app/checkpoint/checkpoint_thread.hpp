// CheckpointThread: writes the records of ranks to the real disk, on its own thread, so that no
// actor waits for a disk. With the virtual clock there is no thread.
//
// If a disk fails, the present checkpoint is abandoned, the caller that ordered it gets the reason,
// and the run continues.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "actors/settings/checkpoint_orders.hpp"
#include "app/checkpoint/checkpoint_writer.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

// Reported for a complete one, followed by its folder.
constexpr char kCheckpointAt[] = "checkpoint ";

class CheckpointThread {
 public:
  /// The object that a script has stored with a rank. Called on any thread. Empty: there are no
  /// scripts.
  using KeptOf = std::function<KeptBlob(int rank)>;

  /// `say` gets a line for each old checkpoint that cannot be removed, on any thread. `threaded`:
  /// false makes the caller wait.
  CheckpointThread(const std::string& run_folder, RunIdentity, bool threaded,
                   std::function<void(const std::string&)> say, KeptOf kept = {});
  CheckpointThread(const CheckpointThread&) = delete;
  ~CheckpointThread();

  /// The present graph, for the manifests.
  void set_epoch(uint64_t epoch, const std::string& topology);
  /// The score of the last test.
  void set_score(const Score&);

  void write(CheckpointPart, CheckpointOrders::Done);  // one at a time
  /// Error: why the last one could not be written.
  Status newest() const;
  /// Stops writing, and removes an incomplete checkpoint.
  void stop();

 private:
  struct Task {
    CheckpointPart part;
    CheckpointOrders::Done done;
  };
  void work();
  void carry(Task);
  Status begin_and_write(const CheckpointPart&);
  Status finish();
  void fail(const Error&, const CheckpointOrders::Done&);

  const std::function<void(const std::string&)> say_;
  const KeptOf kept_;
  CheckpointWriter writer_;  // the thread uses it until stop()
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::optional<Task> task_ GV_GUARDED_BY(mutex_);
  bool busy_ GV_GUARDED_BY(mutex_) = false, ends_ GV_GUARDED_BY(mutex_) = false;
  bool stopped_ GV_GUARDED_BY(mutex_) = false;
  uint64_t epoch_ GV_GUARDED_BY(mutex_) = 0;
  std::string topology_ GV_GUARDED_BY(mutex_);
  std::optional<Score> score_ GV_GUARDED_BY(mutex_);
  Status newest_ GV_GUARDED_BY(mutex_) = Done{};
  std::thread thread_;
};

}  // namespace grapevine
