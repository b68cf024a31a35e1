#include "actors/clocks/virtual_clock.hpp"

#include <algorithm>
#include <cstdio>

namespace grapevine {

bool VirtualClock::fire() {
  if (timers_.empty()) return false;
  const time_point at = timers_.next();
  auto timer = timers_.take();
  if (!timer) return true;
  now_ = std::max(now_, at);
  ++fired_;
  timer->to->enqueue(std::move(timer->message), nullptr);
  return true;
}

VirtualConfig::VirtualConfig(std::shared_ptr<VirtualClock> shared) : clock(std::move(shared)) {
  load<VirtualScheduler>();
}

VirtualScheduler::VirtualScheduler(caf::actor_system& system)
    : abstract_coordinator(system), unit_(*this) {
  const auto* config = dynamic_cast<const VirtualConfig*>(&system.config());
  clock_ = config != nullptr ? config->clock : std::make_shared<VirtualClock>();
  if (config != nullptr) when_ready_ = config->when_ready;
}

// aout() prints at once; the spare argument avoids an error in CAF.
void VirtualScheduler::start() {
  utility_actors_[printer_id] = system().spawn<caf::hidden + caf::lazy_init>(
      [](caf::event_based_actor*, int) -> caf::behavior {
        return {[](caf::add_atom, caf::actor_id, const std::string& s) {
                  std::fputs(s.c_str(), stderr);
                },
                [](caf::flush_atom, caf::actor_id) {}, [](caf::delete_atom, caf::actor_id) {}};
      },
      0);
}

void VirtualScheduler::stop() {
  clock_->cancel_all();
  for (auto& actor : utility_actors_)
    caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  while (!jobs_.empty()) {
    run();
    clock_->cancel_all();
  }
}

void VirtualScheduler::run() {
  // The thread that spawned an actor has CAF's log, and each message would look up this thread in
  // it twice.
  caf::logger::set_current_actor_system(nullptr);
  running_ = true;
  while (!jobs_.empty()) {
    caf::resumable* job = jobs_.front();
    jobs_.pop_front();
    switch (job->resume(&unit_, 1)) {
      case caf::resumable::resume_later: jobs_.push_back(job); break;
      case caf::resumable::shutdown_execution_unit: break;
      default: intrusive_ptr_release(job);
    }
  }
  running_ = false;
}

void VirtualScheduler::clear() {
  run();
  clock_->cancel_all();
  run();
}

void VirtualScheduler::run_until(const std::function<bool()>& enough) {
  run();
  while (!enough() && step()) {
  }
}

}  // namespace grapevine
