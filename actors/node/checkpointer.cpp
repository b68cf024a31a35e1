#include "actors/node/checkpointer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace grapevine {

Checkpointer::Checkpointer(caf::actor_config& config, CheckpointerDependencies deps)
    : CheckpointerActor::base(config), deps_(std::move(deps)) {
  const CheckpointOrders& orders = deps_.orders;
  next_s_ = orders.every_s > 0 ? deps_.clock.now() + orders.every_s : kNever;
  next_steps_ = steps() + orders.every_steps;
  whole_at_s_ = deps_.clock.now();
}

uint64_t Checkpointer::steps() const {
  return deps_.counters->gradients.load(std::memory_order_relaxed) /
         static_cast<uint64_t>(deps_.ranks);
}

bool Checkpointer::is_due() {
  const CheckpointOrders& orders = deps_.orders;
  const int asked = orders.asked != nullptr ? orders.asked->load(std::memory_order_relaxed) : 0;
  const bool by_steps = orders.every_steps > 0 && steps() >= next_steps_;
  const bool is_due =
      deps_.clock.now() >= next_s_ || by_steps || asked != asked_ || !later_.empty();
  if (!is_due) return false;
  asked_ = asked;
  if (orders.every_s > 0) next_s_ = deps_.clock.now() + orders.every_s;
  next_steps_ = steps() + orders.every_steps;
  return true;
}

void Checkpointer::poll() {
  if (!writing_ && is_due()) begin();
  watch_age();
  const double at = deps_.clock.now() + deps_.look_s;
  scheduled_send(caf::actor_cast<CheckpointerActor>(this), deps_.clock.instant(at), Tick{});
}

void Checkpointer::begin() {
  writing_ = true;
  any_ = ending_ = false;
  askers_ = std::exchange(later_, {});
  gradients_ = deps_.counters->gradients.load(std::memory_order_relaxed);
  trained_s_ = deps_.trained_s + deps_.clock.now();
  ranks_.clear();
  awaited_ = deps_.states.size();
  const auto told = [this](const StateReport& report) {
    for (const auto& [rank, counts] : report.counts)
      ranks_.push_back(rank);
    if (--awaited_ > 0) return;
    std::sort(ranks_.rbegin(), ranks_.rend());
    record_next();
  };
  for (const StateActor& state : deps_.states)
    request(state, caf::infinite, Report{})
        .then([told](const StateReport& report) { told(report); },
              [told](const caf::error&) { told({}); });
}

void Checkpointer::record_next() {
  if (ranks_.empty()) {
    if (!any_) return end(fmt::format("{}: no rank is here yet", kNoCheckpoint));
    ending_ = true;
    return write({gradients_, nullptr, trained_s_});
  }
  const int rank = ranks_.back();
  ranks_.pop_back();
  const StateActor& state = deps_.states[static_cast<size_t>(rank) % deps_.states.size()];
  request(state, caf::infinite, RecordRank{rank})
      .then(
          [this](const RankRecordPtr& record) {
            if (record == nullptr) return record_next();  // the rank has left
            any_ = true;
            write({gradients_, record, trained_s_});
          },
          [this](const caf::error&) { record_next(); });
}

void Checkpointer::write(CheckpointPart part) {
  deps_.orders.write(std::move(part), [self = caf::actor_cast<CheckpointerActor>(this)](
                                          bool is_written, std::string told) {
    caf::anon_send(self, PartWritten{is_written, std::move(told)});
  });
}

void Checkpointer::on_written(const PartWritten& part) {
  if (part.is_written && !ending_) return record_next();
  if (part.is_written) whole_at_s_ = deps_.clock.now();
  judge(part);
  end(part.told);
}

// An alarm for a checkpoint that never ends, as for one that cannot be written.
void Checkpointer::watch_age() {
  constexpr double kPeriods = 3, kLeast_s = 60;
  const double every_s = deps_.orders.every_s, age_s = deps_.clock.now() - whole_at_s_;
  if (every_s <= 0 || age_s < kPeriods * every_s + kLeast_s || std::exchange(alarmed_, true))
    return;
  Alarm alarm;
  alarm.what = Alarm::What::checkpoint;
  alarm.at_s = deps_.clock.now();
  alarm.is =
      fmt::format("the last complete checkpoint is {:.0f} s old, and one is due every {:.0f} s",
                  age_s, every_s);
  alarm.advice = "check the disk";
  deps_.sink.raise(alarm);
}

void Checkpointer::judge(const PartWritten& last) {
  if (std::exchange(alarmed_, !last.is_written) == alarmed_) return;
  Alarm alarm;
  alarm.what = Alarm::What::checkpoint;
  alarm.over = last.is_written;
  alarm.at_s = deps_.clock.now();
  alarm.is = last.told;
  if (!alarm.over) alarm.advice = "check the disk";
  deps_.sink.raise(alarm);
}

void Checkpointer::end(const std::string& told) {
  writing_ = false;
  for (auto& asker : std::exchange(askers_, {}))
    asker.deliver(told);
  if (!later_.empty() && is_due()) begin();
}

Checkpointer::behavior_type Checkpointer::make_behavior() {
  return {
      [this](Tick) { poll(); },
      [this](const PartWritten& part) { on_written(part); },
      [this](SaveNow) -> caf::result<std::string> {
        auto promise = make_response_promise<std::string>();
        later_.push_back(promise);
        if (!writing_ && is_due()) begin();
        return promise;
      },
  };
}

void Checkpointer::on_exit() {
  deps_.orders = {};
  deps_.sink = {};
  deps_.states.clear();
  askers_.clear();
  later_.clear();
}

}  // namespace grapevine
