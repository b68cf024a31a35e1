// VirtualClock and VirtualScheduler: the same actors in one thread, in virtual time, repeatable bit
// for bit.
//
// Install with `config.load<VirtualScheduler>()`. Ready actors run first in, first out, one message
// at a time. If none is ready, the earliest timer fires and time jumps to it. Timers of one time
// fire in the order in which they were set. To use it: spawn, run(), then step() until done. Before
// the system is destroyed, send every actor its exit and clear(). Systems that share a clock
// (VirtualConfig) are processes of one simulated world: fire the clock, then run() each system.
#pragma once
#include <caf/all.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "actors/clocks/timer_queue.hpp"

namespace grapevine {

class VirtualClock final : public TimerClock {
 public:
  time_point now() const noexcept override { return now_; }
  bool empty() const { return timers_.empty(); }
  time_point next() const { return timers_.next(); }  // REQUIRES: not empty
  uint64_t fired() const { return fired_; }

  /// Fires one event and moves the time to it. False: there is none.
  bool fire();
  void cancel_all() override { (void)timers_.clear(); }

 private:
  void put(time_point at, TimerQueue::Timer timer) override { timers_.put(at, std::move(timer)); }
  void cancel_idle(caf::actor_id actor) override { timers_.cancel_idle(actor); }

  time_point now_{duration_type{1}};  // CAF gives zero a special meaning
  uint64_t fired_ = 0;
  TimerQueue timers_;
};

/// A system on the virtual clock. All systems with the same `clock` have the same time.
struct VirtualConfig : caf::actor_system_config {
  explicit VirtualConfig(std::shared_ptr<VirtualClock> clock);
  std::shared_ptr<VirtualClock> clock;
  // Called when an actor becomes ready and none was, outside run().
  std::function<void()> when_ready;
};

class VirtualScheduler final : public caf::scheduler::abstract_coordinator {
 public:
  explicit VirtualScheduler(caf::actor_system& system);
  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>) {
    return new VirtualScheduler(system);  // owned by the system
  }
  static VirtualScheduler& of(caf::actor_system& system) {
    return dynamic_cast<VirtualScheduler&>(system.scheduler());
  }

  VirtualClock& clock() noexcept override { return *clock_; }
  bool detaches_utility_actors() const override { return false; }
  void enqueue(caf::resumable* job) override { add(job); }
  void start() override;
  void stop() override;

  void run();  // until no actor is ready
  /// Then one event after the other, until `enough` returns true (called before each) or none is
  /// left.
  void run_until(const std::function<bool()>& enough);
  void clear();  // runs what is ready, and drops what is due later
  bool idle() const { return jobs_.empty(); }
  bool step() {
    return clock_->fire() && (run(), true);
  }  // one event, and all that it causes at the same time

 private:
  struct Unit final : caf::execution_unit {
    explicit Unit(VirtualScheduler& scheduler)
        : execution_unit(&scheduler.system()), scheduler(scheduler) {}
    void exec_later(caf::resumable* job) override { scheduler.add(job); }
    VirtualScheduler& scheduler;
  } unit_;
  void add(caf::resumable* job) {
    if (jobs_.empty() && !running_ && when_ready_) when_ready_();
    jobs_.push_back(job);
  }

  std::shared_ptr<VirtualClock> clock_;
  std::function<void()> when_ready_;
  std::deque<caf::resumable*> jobs_;
  bool running_ = false;
};

}  // namespace grapevine
