// GuestWorker: the worker of a rank whose steps a script computes.
//
//   script --Computed--> worker --TakeStep--> state --Parameters--> worker --answer--> script
//
// Without a script the rank keeps exchanging and takes no steps. A script may come and go at any
// time, and so may the worker: if a worker ends during a request, the next worker repeats the
// request, and no step is taken twice. The rank counts as computing between an answer and the next
// request, and as idle otherwise. An interval that is much longer than usual (a test, say) is left
// out of the measured rate. The other ranks of the node take the remaining steps of a rank without
// a script. If the method has rounds and the others wait for the rank, it takes part in their
// rounds without a gradient.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "actors/guests/guest_seat.hpp"
#include "actors/rank/worker.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

/// A script has taken the seat, or (null) has left it.
struct Seated {
  std::shared_ptr<GuestSeat> seat;
};
struct GuestFinished {};  // the rank takes no more steps

using GuestWorkerActor = WorkerActor::extend<Takes<Seated>, Takes<GuestFinished>>;

/// The script at each place of a node, and the worker that serves it. Any thread.
class GuestTable {
 public:
  struct RankWorker {
    int rank = -1;
    GuestWorkerActor worker;
  };

  explicit GuestTable(int places) : places_(static_cast<size_t>(places)) {}

  void set_seat(int place, std::shared_ptr<GuestSeat>);  // null: the seat is free
  void finish(int place);                                // permanently, also for a later worker
  void serve(int place, RankWorker);      // from now on, also a script that is already there
  void close();                           // no worker serves from now on
  RankWorker worker_at(int place) const;  // no worker: there is none yet

  /// Steps that a rank here will not take; the other ranks take them.
  void leave_steps(uint64_t count) { left_ += count; }
  bool take_step_left();  // takes one of them; false: there is none

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

/// Makes the workers of a node whose steps scripts compute.
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
  uint64_t share_;                          // steps of the rank; 0: no limit
  uint64_t gradients_ = 0, exchanges_ = 0;  // as the state last reported
  bool started_ = false, has_begun_ = false, asked_ = false, draining_ = false, paused_ = false;
  const bool rests_;  // it takes part in rounds after its end
  // As far as known, all gradients of the pool are taken.
  bool waits_for_work_ = false;
  bool step_open_ = false, resting_ = false;  // a step, a round without one: not answered yet
  Parameters held_;                           // arrived while paused
  double finished_s_ = kNever;                // after its last gradient it is not idle
  double paused_at_s_ = 0;
  double born_s_ = 0, busy_since_s_ = kNever, busy_s_ = 0;
  uint64_t spells_ = 0;  // the number of intervals in busy_s_
};

}  // namespace grapevine

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::Seated)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::GuestFinished)
