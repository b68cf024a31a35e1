#include "actors/clocks/virtual_clock.hpp"

#include <algorithm>
#include <cstdio>

namespace grapevine {

bool VirtualClock::fire() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end());
  const Key key = heap_.back();
  heap_.pop_back();
  Event event = std::move(events_[key.event]);
  free_.push_back(key.event);
  if (event.idle) {
    const auto found = idle_.find(event.to->get());
    if (found == idle_.end() || found->second != key.sequence) return true;
    idle_.erase(found);
  }
  now_ = std::max(now_, key.at);
  ++fired_;
  event.to->enqueue(std::move(event.message), nullptr);
  return true;
}

void VirtualClock::put(time_point at, caf::strong_actor_ptr to, caf::mailbox_element_ptr message,
                       bool idle) {
  uint32_t slot;
  if (free_.empty()) {
    slot = static_cast<uint32_t>(events_.size());
    events_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  events_[slot] = {std::move(to), std::move(message), idle};
  heap_.push_back({at, ++sequence_, slot});
  std::push_heap(heap_.begin(), heap_.end());
}

void VirtualClock::put_timeout(time_point at, caf::abstract_actor* actor, caf::message_id id,
                               caf::message content, bool idle) {
  auto to = caf::strong_actor_ptr{actor->ctrl()};
  put(at, to, caf::make_mailbox_element(to, id, {}, std::move(content)), idle);
}

void VirtualClock::set_ordinary_timeout(time_point at, caf::abstract_actor* actor,
                                        caf::atom_value kind, uint64_t id) {
  idle_[actor] = sequence_ + 1;
  put_timeout(at, actor, caf::make_message_id(), caf::make_message(caf::timeout_msg{kind, id}),
              true);
}

void VirtualClock::set_multi_timeout(time_point at, caf::abstract_actor* actor,
                                     caf::atom_value kind, uint64_t id) {
  put_timeout(at, actor, caf::make_message_id(), caf::make_message(caf::timeout_msg{kind, id}),
              false);
}

void VirtualClock::set_request_timeout(time_point at, caf::abstract_actor* actor,
                                       caf::message_id id) {
  put_timeout(at, actor, id, caf::make_message(caf::make_error(caf::sec::request_timeout)), false);
}

void VirtualClock::cancel_ordinary_timeout(caf::abstract_actor* actor, caf::atom_value) {
  idle_.erase(actor);
}

void VirtualClock::cancel_timeouts(caf::abstract_actor* actor) { idle_.erase(actor); }

void VirtualClock::schedule_message(time_point at, caf::strong_actor_ptr to,
                                    caf::mailbox_element_ptr message) {
  put(at, std::move(to), std::move(message), false);
}

void VirtualClock::schedule_message(time_point, caf::group, caf::strong_actor_ptr, caf::message) {}

void VirtualClock::cancel_all() {
  heap_.clear();
  events_.clear();
  free_.clear();
}

VirtualConfig::VirtualConfig(std::shared_ptr<VirtualClock> shared) : clock(std::move(shared)) {
  load<VirtualScheduler>();
}

VirtualScheduler::VirtualScheduler(caf::actor_system& system)
    : abstract_coordinator(system), unit_(*this) {
  const auto* config = dynamic_cast<const VirtualConfig*>(&system.config());
  clock_ = config != nullptr ? config->clock : std::make_shared<VirtualClock>();
}

void VirtualScheduler::start() {  // aout() prints at once; the spare argument dodges a CAF trap
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
  while (!jobs_.empty()) {
    caf::resumable* job = jobs_.front();
    jobs_.pop_front();
    switch (job->resume(&unit_, 1)) {
      case caf::resumable::resume_later: jobs_.push_back(job); break;
      case caf::resumable::shutdown_execution_unit: break;
      default: intrusive_ptr_release(job);
    }
  }
}

}  // namespace grapevine
