// WallScheduler: the actors' scheduler and clock in real time, for processes whose cores compute
// gradients. Between two gradients a compute thread fires the due timers and runs the ready actors,
// so an exchange wakes no thread.
//
// Install with `config.load<WallScheduler>()`. "scheduler.max-threads" is the number of helpers,
// the threads that serve when no compute thread does. While all compute threads compute, a timer
// waits up to kSlack for one of them; then a helper fires it. Messages of other threads are never
// late: they wake a helper. Timers of one time fire in the order in which they were set. Messages
// to groups cannot be scheduled.
#pragma once
#include <caf/all.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "actors/clocks/timer_queue.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

class WallScheduler;

/// Runs ready actors, and those that they make ready, one after the other on the calling thread. It
/// returns an actor with a long mailbox, and the rest of a long chain, to the scheduler.
class Carrier : public caf::execution_unit {
 public:
  explicit Carrier(caf::actor_system& system) : execution_unit(&system) {}
  void exec_later(caf::resumable* job) override { jobs_.push_back(job); }
  void run();  // until none is ready here

 protected:
  std::deque<caf::resumable*> jobs_;
};

class WallScheduler final : public caf::scheduler::abstract_coordinator, public TimerClock {
 public:
  /// A thread that computes, and serves between two computations. If the system has another
  /// scheduler, it only runs the actors to which it delivers. Belongs to one thread. Destroy it
  /// before the system.
  class Visitor final : public Carrier {
   public:
    explicit Visitor(caf::actor_system&);  // it computes
    ~Visitor() override;

    // And runs what that makes ready.
    void deliver(const caf::strong_actor_ptr& to, caf::mailbox_element_ptr);
    void serve();                 // fires all that is due now
    void set_computing(bool on);  // true: it will soon call serve() by itself

   private:
    WallScheduler* scheduler_;
    bool computing_ = true;
  };

  explicit WallScheduler(caf::actor_system& system) : abstract_coordinator(system) {}
  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>) {
    return new WallScheduler(system);  // owned by the system
  }

  /// Throws std::system_error if a thread of this system's WallScheduler could not start. The
  /// constructor of the system cannot throw it. Without its threads a system runs no actor.
  static void require_threads(caf::actor_system&);

  caf::actor_clock& clock() noexcept override { return *this; }
  void enqueue(caf::resumable* job) override;
  void start() override;
  void stop() override;

  void cancel_all() override;

 private:
  static constexpr std::chrono::milliseconds kSlack{5};

  class Helper;

  void put(time_point, TimerQueue::Timer) override;
  void cancel_idle(caf::actor_id) override;
  bool fire(time_point until, Carrier&);  // fires the earliest timer if it is due by then
  void serve(Carrier&);
  void help(Carrier&);
  void hand_over(caf::resumable* job);                 // to a helper
  time_point wanted_wake() const GV_REQUIRES(mutex_);  // when the keeper has to wake
  void wake_keeper() GV_REQUIRES(mutex_);
  void wake_helper() GV_REQUIRES(mutex_);
  void count_computing(int change, int visitors);

  Mutex mutex_;
  std::condition_variable keeper_wake_;  // the keeper: the helper that sleeps until the next timer
  std::condition_variable helper_wake_;  // the others
  TimerQueue timers_ GV_GUARDED_BY(mutex_);
  std::deque<caf::resumable*> jobs_ GV_GUARDED_BY(mutex_);
  bool keeper_ GV_GUARDED_BY(mutex_) = false, keeper_sleeps_ GV_GUARDED_BY(mutex_) = false;
  time_point keeper_wakes_at_ GV_GUARDED_BY(mutex_){};
  int visitors_ GV_GUARDED_BY(mutex_) = 0, computing_ GV_GUARDED_BY(mutex_) = 0;
  int sleepers_ GV_GUARDED_BY(mutex_) = 0;  // helpers, without the keeper
  bool stopping_ GV_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> helpers_;
  std::optional<std::system_error> refused_;  // a thread could not start
};

}  // namespace grapevine
