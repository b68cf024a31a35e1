#include "actors/clocks/timer_queue.hpp"

#include <algorithm>
#include <utility>

#include "kernels/base/check.hpp"

namespace grapevine {

void TimerQueue::put(time_point at, Timer timer) {
  uint32_t place = static_cast<uint32_t>(timers_.size());
  ++sequence_;
  if (timer.idle) idle_[timer.to->id()] = sequence_;
  if (free_.empty()) {
    timers_.push_back(std::move(timer));
  } else {
    place = free_.back();
    free_.pop_back();
    timers_[place] = std::move(timer);
  }
  heap_.push_back({at, sequence_, place});
  std::push_heap(heap_.begin(), heap_.end());
}

std::optional<TimerQueue::Timer> TimerQueue::take() {
  std::pop_heap(heap_.begin(), heap_.end());
  const Key key = heap_.back();
  heap_.pop_back();
  Timer timer = std::move(timers_[key.timer]);
  free_.push_back(key.timer);
  if (timer.idle) {
    const auto found = idle_.find(timer.to->id());
    if (found == idle_.end() || found->second != key.sequence) return std::nullopt;
    idle_.erase(found);
  }
  return timer;
}

std::vector<TimerQueue::Timer> TimerQueue::clear() {
  heap_.clear();
  free_.clear();
  idle_.clear();
  return std::exchange(timers_, {});
}

namespace {

TimerQueue::Timer timeout(caf::abstract_actor* actor, caf::message_id id, caf::message content,
                          bool idle) {
  caf::strong_actor_ptr to{actor->ctrl()};
  auto message = caf::make_mailbox_element(to, id, {}, std::move(content));
  return {std::move(to), std::move(message), idle};
}

}  // namespace

void TimerClock::set_ordinary_timeout(time_point at, caf::abstract_actor* actor,
                                      caf::atom_value kind, uint64_t id) {
  put(at, timeout(actor, caf::make_message_id(), caf::make_message(caf::timeout_msg{kind, id}),
                  true));
}

void TimerClock::set_multi_timeout(time_point at, caf::abstract_actor* actor, caf::atom_value kind,
                                   uint64_t id) {
  put(at, timeout(actor, caf::make_message_id(), caf::make_message(caf::timeout_msg{kind, id}),
                  false));
}

void TimerClock::set_request_timeout(time_point at, caf::abstract_actor* actor,
                                     caf::message_id id) {
  put(at, timeout(actor, id, caf::make_message(caf::make_error(caf::sec::request_timeout)), false));
}

void TimerClock::cancel_ordinary_timeout(caf::abstract_actor* actor, caf::atom_value) {
  cancel_idle(actor->id());
}

void TimerClock::cancel_timeouts(caf::abstract_actor* actor) { cancel_idle(actor->id()); }

void TimerClock::schedule_message(time_point at, caf::strong_actor_ptr to,
                                  caf::mailbox_element_ptr message) {
  put(at, {std::move(to), std::move(message), false});
}

void TimerClock::schedule_message(time_point, caf::group, caf::strong_actor_ptr, caf::message) {
  GV_CHECK(false);  // no actor here belongs to a group
}

}  // namespace grapevine
