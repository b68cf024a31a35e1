// GuestWorker: the worker of a rank whose steps a guest, a script, computes.
//
//   script --Computed--> worker --TakeStep--> state --Parameters--> worker --answer--> script
//
// Without a script the rank keeps exchanging and takes no steps. A script may come and go at any
// time, and so may the worker: a request that was under way when a worker ended is asked again by
// the next worker, and no step is taken twice. The rank counts as computing between an answer and
// the next request, and as idle otherwise. If that takes much longer than usual (during a test,
// say), no rate is measured. The other ranks of the node take the remaining steps of a rank without
// a script. If they wait for it, because the method has rounds, it takes part in their rounds
// without a gradient.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "actors/guests/guest_seat.hpp"
#include "actors/rank/worker.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

/// A script has taken the seat, or, null, has left it.
struct Seated {
  std::shared_ptr<GuestSeat> seat;
};
struct GuestFinished {};  // nobody takes steps of the rank any more: it has done its share

using GuestWorkerActor = WorkerActor::extend<Takes<Seated>, Takes<GuestFinished>>;

/// The script at each place of a node, and the worker that serves it. Any thread.
class GuestTable {
 public:
  struct RankWorker {
    int rank = -1;
    GuestWorkerActor worker;
  };

  explicit GuestTable(int places) : places_(static_cast<size_t>(places)) {}

  void set_seat(int place, std::shared_ptr<GuestSeat>);  // null: it is free
  void finish(int place);                                // for good, whoever serves it
  void serve(int place, RankWorker);      // from now on, a script that is there included
  void close();                           // no worker serves from now on
  RankWorker worker_at(int place) const;  // no worker: none yet

  /// Steps that a rank here was to take, and will not: they are the others'.
  void leave_steps(uint64_t count) { left_ += count; }
  bool take_step_left();  // one of them; false: there is none

 private:
  struct Place {
    RankWorker served_by;
    std::shared_ptr<GuestSeat> seat;
    bool finished = false;
  };

  mutable Mutex mutex_;
  std::vector<Place> places_ GV_GUARDED_BY(mutex_);
  bool closed_ GV_GUARDED_BY(mutex_) = false;
  std::atomic<uint64_t> left_{0};
};

/// Makes the workers of a node whose ranks are guests'.
MakeWorker guest_workers(std::shared_ptr<GuestTable>);

class GuestWorker final : public GuestWorkerActor::base {
 public:
  GuestWorker(caf::actor_config& config, WorkerDependencies deps, std::shared_ptr<GuestTable>);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  void seated(Seated&);
  void ask();
  void obey(Order);
  void on_parameters(Parameters&);
  void go_on();
  void answer();
  void finish();
  void rest();
  void computed();
  bool over() const { return draining_ || finished_s_ < kNever; }
  WorkerReport report() const;

  WorkerDependencies deps_;
  std::shared_ptr<GuestTable> table_;
  std::shared_ptr<GuestSeat> seat_;
  uint64_t share_;                          // steps that are the rank's; 0: no end
  uint64_t gradients_ = 0, exchanges_ = 0;  // as the state last said
  bool started_ = false, has_begun_ = false, asked_ = false, draining_ = false, paused_ = false;
  const bool rests_;                          // takes part in rounds, once it has finished
  bool waits_for_work_ = false;               // all of the pool's is taken, for all that is known
  bool step_open_ = false, resting_ = false;  // a step, a round without one: not answered yet
  Parameters held_;                           // arrived while paused
  double finished_s_ = kNever;                // when its share was done: it is not idle after that
  double paused_at_s_ = 0;
  double born_s_ = 0, busy_since_s_ = kNever, busy_s_ = 0;
  uint64_t spells_ = 0;  // that busy_s_ consists of
};

}  // namespace grapevine

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::Seated)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::GuestFinished)
