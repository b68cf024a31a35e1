// GuestServer: answers the scripts of a node, from the first one, which brings the layout and the
// starting point, to the mean at the end. Any thread may call it.
//
//   empty      no script has joined
//   filling    the first script fills its front; others wait for it
//   running    there is an objective, and a run as soon as the node has begun one
//   over       the run has ended here: no more steps are taken, `finish` is answered
//
// A thread has the session of one script (transport/guest_listener.hpp). It sends messages to the
// rank's worker and runs the actors that become ready, so that a step wakes no other thread. The
// server keeps the aside tensors of each script's last step, and averages them over the ranks of
// this node that have had a script.
//
// It is no actor: a thread needs the state of the server several times in a STEP, and each request
// to an actor would wait for another thread. The mutex is held for a few reads and writes, never
// during a wait for the run or for a script. The test `thread_safety` checks that every use of a
// guarded member holds the mutex.
#pragma once
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/clocks/run_clock.hpp"
#include "actors/cluster/cluster_mail.hpp"
#include "actors/guests/guest_worker.hpp"
#include "actors/node/checkpointer.hpp"
#include "actors/settings/kept_blob.hpp"
#include "actors/transport/guest_listener.hpp"
#include "kernels/base/mutex.hpp"
#include "kernels/memory/shared_memory.hpp"
#include "models/guest.hpp"

namespace grapevine {

class WorkPool;  // actors/rank/work_pool.hpp

struct GuestServerOptions {
  int places = 1;          // ranks of this node
  int first_rank = 0;      // as known before the run
  int ranks = 1;           // of the run, as known before it
  uint64_t gradients = 0;  // of the run; 0: the first script may set them
  std::string run, node;   // names
  std::string path;        // of the socket; empty: named after the node
  // For scripts that do not yet ask for the mean when the run is over: they may be in a long test.
  std::chrono::seconds patience{600};
  // For scripts that join when the run is over, at seats that no script has had.
  std::chrono::seconds latecomers{10};
};

/// The last value that the script of a rank reported under a name.
struct GuestMeasure {
  double value = 0;
  uint64_t steps = 0;   // of the rank at that time
  uint64_t number = 0;  // counts all reports at its place
};

/// One place, for reports.
struct GuestStatus {
  int rank = -1;                                   // -1: the run has not begun
  int process = 0;                                 // 0: there is none
  uint64_t steps = 0;                              // of the rank, in the last answer
  double since_step_s = 0;                         // the time since the last answer
  uint64_t sessions = 0;                           // scripts that have had the seat
  int group = 0;                                   // process group of the last script
  bool done = false;                               // it takes no more steps
  std::map<std::string, GuestMeasure> measured{};  // by name, at most kGuestMeasures
};

class GuestServer {
 public:
  using Clock = std::chrono::steady_clock;

  /// The parts of a run that the scripts need.
  struct Run {
    caf::actor_system* system = nullptr;
    ClusterActor cluster;
    std::shared_ptr<Counters> counters;
    std::shared_ptr<WorkPool> pool;       // null: each rank takes an equal number of gradients
    std::optional<RunClock> clock;        // of the pool
    uint64_t gradients = 0;               // of the run; 0: no limit
    int ranks = 1;                        // that the objective distinguishes
    CheckpointerActor checkpointer = {};  // null: there are no checkpoints
    bool on_device = false;               // the ranks and the bases of the seats are on a device
  };

  static Result<std::shared_ptr<GuestServer>> open(GuestServerOptions);
  ~GuestServer();
  GuestServer(const GuestServer&) = delete;

  const std::string& path() const { return path_; }  // of the socket
  const std::shared_ptr<GuestTable>& table() const { return table_; }

  /// The objective of the first script; null after `limit`.
  std::shared_ptr<GuestObjective> await_objective(std::chrono::milliseconds limit);
  /// The gradients of the run: given at the start or by the first script. 0: neither.
  uint64_t gradients() const;

  /// The outer step of all scripts, once there is an objective.
  GuestLayout::Outer outer() const;

  void begin(Run);
  void on_epoch(const EpochInfo&);
  /// The rank at this place takes no more steps. The other ranks take the rest of its gradients.
  void give_up(int place);
  /// A script will come to this place, again.
  void await_script(int place);
  /// The run has ended here. Gives scripts the mean of the trained and of the aside tensors over
  /// this number of ranks, and waits until they have it; once `hurries` returns true, only for
  /// seconds. After that no thread of the server uses the run. `mean` null: there is none. `aside`
  /// null: no rank has aside tensors.
  void end(std::shared_ptr<const Buffer> mean, std::shared_ptr<const Buffer> aside, int ranks,
           const std::function<bool()>& hurries);
  /// Ends without a mean, if the run did not reach end().
  void close();

  /// A copy of the object that a script has stored with a rank.
  KeptBlob kept(int rank) const;
  /// As if a script had stored it at that place: for a script of an earlier life of the run.
  void keep(int place, const KeptBlob&);

  std::vector<GuestStatus> status() const;
  /// Gets a line for each script that comes or goes.
  void set_sink(std::function<void(const std::string&)> say);

 private:
  friend class GuestSession;
  enum class Stage { empty, filling, running, over };
  static constexpr uint64_t kMostWork = uint64_t{1} << 53;  // the most gradients of a run

  struct Place {
    bool taken = false;
    bool awaited = true;  // a script may still come
    GuestStatus status;
    Clock::time_point answered_at{};
    Descriptor blob;
    uint64_t blob_number = 0, blob_bytes = 0;
    uint64_t reports = 0;  // values that were reported here
    GuestShare share;
  };

  struct Taken {
    int place = 0;
    bool founds = false;  // its script brings the starting point of the run
  };

  explicit GuestServer(GuestServerOptions);
  /// Why a script of this layout can never join the run; empty: it can.
  std::string misfit(const GuestLayout&) const GV_REQUIRES(mutex_);
  /// Why the run cannot have this number of gradients (0: the script names none); empty: it can.
  /// The first script may set the number if nobody else has.
  std::string other_work(uint64_t gradients) const GV_REQUIRES(mutex_);
  /// Gives the script of this process a place. Error: why it gets none.
  Result<Taken> take_place(const GuestLayout&, const GuestRecord& join, int process)
      GV_REQUIRES(mutex_);
  void say(const std::string& line) const;
  bool awaits_anybody(Clock::time_point begin) const GV_REQUIRES(mutex_);

  GuestServerOptions options_;
  std::shared_ptr<GuestTable> table_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  Stage stage_ GV_GUARDED_BY(mutex_) = Stage::empty;
  std::optional<GuestLayout> layout_ GV_GUARDED_BY(mutex_);
  uint64_t gradients_ GV_GUARDED_BY(mutex_) = 0;  // of the run, as the first script set them
  std::shared_ptr<GuestObjective> objective_ GV_GUARDED_BY(mutex_);
  std::vector<Place> places_ GV_GUARDED_BY(mutex_);
  int sessions_ GV_GUARDED_BY(mutex_) = 0;  // that have not ended
  int unserved_ GV_GUARDED_BY(mutex_) = 0;  // of these, the ones without the final mean
  Run run_ GV_GUARDED_BY(mutex_);
  EpochInfo epoch_ GV_GUARDED_BY(mutex_);
  std::shared_ptr<const Buffer> mean_ GV_GUARDED_BY(mutex_), mean_aside_ GV_GUARDED_BY(mutex_);
  int ranks_in_mean_ GV_GUARDED_BY(mutex_) = 0;
  std::function<void(const std::string&)> say_ GV_GUARDED_BY(mutex_);

  std::string path_;
  std::unique_ptr<GuestListener> listener_;  // last: its threads use all of it
};

}  // namespace grapevine
