// GuestServer: answers the scripts of a node, from the first one, which brings the layout and the
// starting point, to the mean at the end. A resource; any thread.
//
//   empty      no script has joined
//   filling    the first script fills its front; others wait for it
//   running    there is an objective, and a run as soon as the node has begun one
//   over       the run has ended here: no more steps are taken, `finish` is answered
//
// The session of a script is a thread (transport/guest_listener.hpp) that sends messages to the
// rank's worker and runs the actors that become ready, so that a step wakes no other thread. Aside
// tensors are kept as of the last step of each script, and averaged over this node's ranks that
// have had one.
//
// No actor: the thread of a session needs the state of the server several times in a STEP, and each
// request to an actor would wait for another thread. The mutex is held for a few reads and writes,
// never during a wait for the run or for a script. The test `thread_safety` checks that every use
// of a guarded member holds the mutex.
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
  int first_rank = 0;      // as far as it is known before the run
  int ranks = 1;           // of the run, as far as that is known
  uint64_t gradients = 0;  // of the run; 0: the first script may say
  std::string run, node;   // names
  std::string path;        // of the socket; empty: by the node's name
  // For scripts that do not ask for the mean once the run is over: they may be at a long test.
  std::chrono::seconds patience{600};
  // For scripts that come when the run is over: at seats that none has had yet.
  std::chrono::seconds latecomers{10};
};

/// The last value that the script of a rank reported under a name.
struct GuestMeasure {
  double value = 0;
  uint64_t steps = 0;   // of the rank, then
  uint64_t number = 0;  // of all that was said at its place
};

/// One place, for reports.
struct GuestStatus {
  int rank = -1;                                   // -1: the run has not begun
  int process = 0;                                 // of the script; 0: none
  uint64_t steps = 0;                              // of the rank, as the script knows
  double since_step_s = 0;                         // since the script was answered
  uint64_t sessions = 0;                           // scripts that have had the seat
  int group = 0;                                   // of the processes of the last of them
  bool done = false;                               // no more steps are taken there
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
    std::shared_ptr<WorkPool> pool;       // null: each rank has its own share
    std::optional<RunClock> clock;        // of the pool
    uint64_t gradients = 0;               // of the run; 0: no end is known
    int ranks = 1;                        // that the objective tells apart
    CheckpointerActor checkpointer = {};  // null: there are no checkpoints
    bool on_device = false;               // the ranks are, and so are the seats' bases
  };

  static Result<std::shared_ptr<GuestServer>> open(GuestServerOptions);
  ~GuestServer();
  GuestServer(const GuestServer&) = delete;

  const std::string& path() const { return path_; }  // of the socket
  const std::shared_ptr<GuestTable>& table() const { return table_; }

  /// The objective of the first script; null after `limit`.
  std::shared_ptr<GuestObjective> await_objective(std::chrono::milliseconds limit);
  /// The gradients of the run, as given at the start or by the first script; 0: neither.
  uint64_t gradients() const;

  /// Of all scripts, once there is an objective.
  GuestLayout::Outer outer() const;

  void begin(Run);
  void on_epoch(const EpochInfo&);
  /// No more steps are taken at this place: the other ranks take the rest of its share.
  void give_up(int place);
  /// A script is on its way there, again.
  void await_script(int place);
  /// The run has ended here. Gives scripts the mean, over this number of ranks, of the trained and
  /// the aside tensors, and waits until they have it, only for seconds once `hurries` is set. After
  /// that no thread of the server uses the run. Without a mean: null. `aside` null: no rank has
  /// any.
  void end(std::shared_ptr<const Buffer> mean, std::shared_ptr<const Buffer> aside, int ranks,
           const std::function<bool()>& hurries);
  /// Without a mean, where the run has not come as far as to end().
  void close();

  /// A copy of the object that a script has stored with a rank.
  KeptBlob kept(int rank) const;
  /// As if a script had left it at that place: that of an earlier life of the run has.
  void keep(int place, const KeptBlob&);

  std::vector<GuestStatus> status() const;
  /// A line for each script that comes or goes.
  void set_sink(std::function<void(const std::string&)> say);

 private:
  friend class GuestSession;
  enum class Stage { empty, filling, running, over };
  static constexpr uint64_t kMostWork = uint64_t{1} << 53;  // gradients that a run is told to take

  struct Place {
    bool taken = false;
    bool awaited = true;  // a script may be on its way: none has come yet
    GuestStatus status;
    Clock::time_point answered_at{};
    Descriptor blob;
    uint64_t blob_number = 0, blob_bytes = 0;
    uint64_t reports = 0;  // values that were said here
    GuestShare share;
  };

  struct Taken {
    int place = 0;
    bool founds = false;  // its script gives the starting point of the run
  };

  explicit GuestServer(GuestServerOptions);
  /// Why the run can never have a script of this layout; empty: it can.
  std::string misfit(const GuestLayout&) const GV_REQUIRES(mutex_);
  /// Why the run cannot be of so many gradients, 0: of as many as it is; empty: it can. The first
  /// script may say where nobody else has.
  std::string other_work(uint64_t gradients) const GV_REQUIRES(mutex_);
  /// Gives the script of this process a place. Error: why there is none.
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
  uint64_t gradients_ GV_GUARDED_BY(mutex_) = 0;  // of the run, as the first script has said
  std::shared_ptr<GuestObjective> objective_ GV_GUARDED_BY(mutex_);
  std::vector<Place> places_ GV_GUARDED_BY(mutex_);
  int sessions_ GV_GUARDED_BY(mutex_) = 0;  // that are going on
  int unserved_ GV_GUARDED_BY(mutex_) = 0;  // of them, that do not have the last mean
  Run run_ GV_GUARDED_BY(mutex_);
  EpochInfo epoch_ GV_GUARDED_BY(mutex_);
  std::shared_ptr<const Buffer> mean_ GV_GUARDED_BY(mutex_), mean_aside_ GV_GUARDED_BY(mutex_);
  int ranks_in_mean_ GV_GUARDED_BY(mutex_) = 0;
  std::function<void(const std::string&)> say_ GV_GUARDED_BY(mutex_);

  std::string path_;
  std::unique_ptr<GuestListener> listener_;  // last: its threads use all of it
};

}  // namespace grapevine
