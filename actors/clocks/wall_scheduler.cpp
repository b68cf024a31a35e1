#include "actors/clocks/wall_scheduler.hpp"

#include <algorithm>
#include <utility>

#include "kernels/base/check.hpp"

namespace grapevine {

namespace {
constexpr size_t kMessages = 16;           // of one actor in a row
constexpr int kTurns = 1024;               // of actors in a row; a longer chain may never end
thread_local Carrier* carrying = nullptr;  // the carrier that runs actors on this thread now
}  // namespace

void Carrier::run() {
  Carrier* const before = std::exchange(carrying, this);
  int turns = 0;
  while (!jobs_.empty() && turns++ < kTurns) {
    caf::resumable* job = jobs_.front();
    jobs_.pop_front();
    switch (job->resume(this, kMessages)) {
      case caf::resumable::resume_later: jobs_.push_back(job); break;
      case caf::resumable::shutdown_execution_unit: break;
      default: intrusive_ptr_release(job);
    }
  }
  carrying = before;
  for (caf::resumable* job : std::exchange(jobs_, {}))
    system().scheduler().enqueue(job);
}

// --- the threads that compute

WallScheduler::Visitor::Visitor(caf::actor_system& system)
    : Carrier(system), scheduler_(dynamic_cast<WallScheduler*>(&system.scheduler())) {
  if (scheduler_ != nullptr) scheduler_->count_computing(1, 1);
}

WallScheduler::Visitor::~Visitor() {
  if (scheduler_ != nullptr) scheduler_->count_computing(computing_ ? -1 : 0, -1);
}

void WallScheduler::Visitor::deliver(const caf::strong_actor_ptr& to,
                                     caf::mailbox_element_ptr message) {
  to->enqueue(std::move(message), this);
  run();
}

void WallScheduler::Visitor::serve() {
  if (scheduler_ != nullptr) scheduler_->serve(*this);
}

void WallScheduler::Visitor::set_computing(bool on) {
  if (scheduler_ != nullptr && on != computing_) scheduler_->count_computing(on ? 1 : -1, 0);
  computing_ = on;
}

void WallScheduler::count_computing(int change, int visitors) {
  const Lock lock(mutex_);
  computing_ += change;
  visitors_ += visitors;
  if (wanted_wake() < keeper_wakes_at_) wake_keeper();
}

// --- the clock

bool WallScheduler::fire(time_point until, Carrier& carrier) {
  std::optional<TimerQueue::Timer> timer;
  {
    const Lock lock(mutex_);
    if (timers_.empty() || timers_.next() > until) return false;
    timer = timers_.take();
  }
  if (timer) timer->to->enqueue(std::move(timer->message), &carrier);
  return true;
}

// Ready actors run before due timers, because a message that has arrived may make a time-out void.
// Actors that become ready and timers that become due meanwhile wait for the next call, so that
// this one ends.
void WallScheduler::serve(Carrier& carrier) {
  const time_point until = now();
  Lock lock(mutex_);
  for (size_t ready = jobs_.size(); ready > 0 && !jobs_.empty(); --ready) {
    carrier.exec_later(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    carrier.run();
    lock.lock();
  }
  lock.unlock();
  while (fire(until, carrier))
    carrier.run();
}

WallScheduler::time_point WallScheduler::wanted_wake() const {
  if (timers_.empty()) return time_point::max();
  const time_point at = timers_.next();
  return visitors_ > 0 && computing_ == visitors_ ? at + kSlack : at;
}

void WallScheduler::wake_keeper() {
  if (!std::exchange(keeper_sleeps_, false)) return;
  keeper_wake_.notify_one();
}

void WallScheduler::put(time_point at, TimerQueue::Timer timer) {
  const Lock lock(mutex_);
  timers_.put(at, std::move(timer));
  if (wanted_wake() < keeper_wakes_at_) wake_keeper();
}

void WallScheduler::cancel_idle(caf::actor_id actor) {
  const Lock lock(mutex_);
  timers_.cancel_idle(actor);
}

void WallScheduler::cancel_all() {
  std::vector<TimerQueue::Timer> dropped;  // destroyed without the lock
  const Lock lock(mutex_);
  dropped = timers_.clear();
}

// --- the helpers

// If a helper makes more than one actor ready, the others go to the first free helper, because one
// actor may take long.
class WallScheduler::Helper final : public Carrier {
 public:
  explicit Helper(WallScheduler& scheduler) : Carrier(scheduler.system()), scheduler_(scheduler) {}
  void exec_later(caf::resumable* job) override {
    if (jobs_.empty()) return Carrier::exec_later(job);
    scheduler_.hand_over(job);
  }

 private:
  WallScheduler& scheduler_;
};

void WallScheduler::enqueue(caf::resumable* job) {
  if (carrying != nullptr && &carrying->system() == &system()) return carrying->exec_later(job);
  hand_over(job);
}

void WallScheduler::hand_over(caf::resumable* job) {
  const Lock lock(mutex_);
  jobs_.push_back(job);
  wake_helper();
}

void WallScheduler::wake_helper() {
  if (sleepers_ > 0) {
    helper_wake_.notify_one();
  } else {
    wake_keeper();
  }
}

void WallScheduler::help(Carrier& carrier) {
  Lock lock(mutex_);
  while (!stopping_) {
    if (!jobs_.empty() || wanted_wake() <= now()) {
      // Other than the one that this helper begins with, which may take long.
      const bool more = jobs_.size() > 1;
      if (more || !keeper_) wake_helper();  // some helper has to watch the timers too
      lock.unlock();
      serve(carrier);
      lock.lock();
    } else if (keeper_) {
      ++sleepers_;
      helper_wake_.wait(lock);
      --sleepers_;
    } else {
      keeper_ = keeper_sleeps_ = true;
      keeper_wakes_at_ = wanted_wake();
      if (keeper_wakes_at_ == time_point::max()) {
        keeper_wake_.wait(lock);
      } else {
        keeper_wake_.wait_until(lock, keeper_wakes_at_);
      }
      keeper_ = keeper_sleeps_ = false;
    }
  }
}

void WallScheduler::start() {
  try {
    for (size_t k = 0; k < num_workers(); ++k) {
      helpers_.emplace_back([this] {
        system().thread_started();
        Helper helper(*this);
        help(helper);
        system().thread_terminates();
      });
    }
  } catch (const std::system_error& refused) {
    refused_ = refused;
    return;
  }
  try {
    abstract_coordinator::start();  // an actor that prints, on its own thread
  } catch (const std::system_error& refused) {
    refused_ = refused;
    system().dec_detached_threads();  // CAF has counted it already
  }
}

void WallScheduler::require_threads(caf::actor_system& system) {
  const auto* scheduler = dynamic_cast<WallScheduler*>(&system.scheduler());
  if (scheduler != nullptr && scheduler->refused_) throw *scheduler->refused_;
}

void WallScheduler::stop() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
  }
  keeper_wake_.notify_all();
  helper_wake_.notify_all();
  for (std::thread& helper : helpers_)
    helper.join();
  if (!refused_) stop_actors();
  cancel_all();
  std::deque<caf::resumable*> left;
  {
    const Lock lock(mutex_);
    left.swap(jobs_);
  }
  for (caf::resumable* job : left)
    cleanup_and_release(job);
}

}  // namespace grapevine
