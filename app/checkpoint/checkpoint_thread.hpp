// CheckpointThread: carries out on the real disk what the ranks' records are to become. One thread,
// so that nobody who answers anything ever waits for a disk; without one for the virtual clock,
// where nothing else goes on.
//
// A disk that fails ends the checkpoint at hand; whoever has ordered it hears why, and the run goes
// on.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "actors/settings/checkpoint_orders.hpp"
#include "app/checkpoint/checkpoint_writer.hpp"

namespace grapevine {

constexpr char kCheckpointAt[] = "checkpoint ";  // is told of one that is whole, and its folder

class CheckpointThread {
 public:
  /// What a script has left with a rank; in any thread. Empty: there are no scripts.
  using KeptOf = std::function<KeptBlob(int rank)>;

  /// `say`: that old ones cannot be removed, a line each; in any thread. `threaded`: else whoever
  /// calls waits.
  CheckpointThread(const std::string& run_folder, RunIdentity, bool threaded,
                   std::function<void(const std::string&)> say, KeptOf kept = {});
  CheckpointThread(const CheckpointThread&) = delete;
  ~CheckpointThread();

  /// The graph of now, for the manifests.
  void set_epoch(uint64_t epoch, const std::string& topology);
  /// Of the last test, likewise.
  void set_score(const Score&);

  void write(CheckpointPart, CheckpointOrders::Done);  // one at a time
  /// Nothing is written any more; what has been begun and is not whole goes.
  void settle();

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
  CheckpointWriter writer_;  // the thread's, until it has settled
  std::mutex mutex_;         // guards what follows
  std::condition_variable changed_;
  std::optional<Task> task_;
  bool busy_ = false, ends_ = false, settled_ = false;
  uint64_t epoch_ = 0;
  std::string topology_;
  std::optional<Score> score_;
  std::thread thread_;
};

}  // namespace grapevine
