#include "actors/rank/communicator.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "actors/mail/mail_node.hpp"

namespace grapevine {

namespace {
// Messages to a paused rank. Later ones are lost, as on a full socket.
constexpr size_t kHeldAtMost = 1024;
}  // namespace

Communicator::Communicator(caf::actor_config& config, int rank, StateActor state,
                           std::shared_ptr<const CommunicatorDependencies> deps,
                           std::unique_ptr<Conversation> conversation)
    : CommunicatorActor::base(config),
      rank_(rank),
      state_(std::move(state)),
      deps_(std::move(deps)),
      conversation_(std::move(conversation)) {}

double Communicator::now() { return now_ = std::max(now_, deps_->clock.now()); }

template <class Event>
void Communicator::handle(Event&& event) {
  const uint64_t applied = conversation_->counts().applied;
  std::array<std::byte, 4096> scratch;
  std::pmr::monotonic_buffer_resource memory(scratch.data(), scratch.size());
  Effects effects(&memory);
  event(effects);
  if (const uint64_t more = conversation_->counts().applied - applied; more > 0)
    deps_->counters->applied_ends.fetch_add(more, std::memory_order_relaxed);
  Unsent unsent = carry_out(effects);
  while (!unsent.empty()) {  // each may make the conversation choose another peer
    const Unsent told = std::exchange(unsent, {});
    Effects more;
    for (const FrameHeader& header : told)
      conversation_->unsent(now_, header, more);
    unsent = carry_out(more);
  }
}

Communicator::Unsent Communicator::carry_out(Effects& effects) {
  Unsent unsent;
  for (Send& s : effects.sends) {
    const uint64_t bytes = deps_->transport->send(now_, s.header, std::move(s.payload.lease));
    if (bytes == 0) unsent.push_back(s.header);
    frames_ += bytes > 0;
    PeerTraffic& traffic = traffic_with(static_cast<int>(s.header.to));
    traffic.bytes += bytes;
    if (s.header.kind == FrameKind::decline) {
      ++traffic.declined;
      deps_->counters->declines[static_cast<size_t>(s.header.reason)].fetch_add(
          1, std::memory_order_relaxed);
    }
    deps_->counters->frames.fetch_add(1, std::memory_order_relaxed);
    deps_->counters->bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  for (auto& request : effects.requests) {
    if (Take* take = std::get_if<Take>(&request)) {
      send(state_, TakeRequest{rank_, *take});
    } else if (Write* write = std::get_if<Write>(&request)) {
      send(state_, WriteRequest{rank_, *write});
    } else {
      send(state_, ApplyRequest{rank_, std::move(std::get<Apply>(request))});
    }
  }
  for (const Arm& a : effects.arms)
    arm(a);
  for (const RoundTrip& trip : effects.round_trips) {
    deps_->counters->edge_round_trips.add(rank_, trip.peer, trip.seconds);
  }
  for (const int peer : effects.suspects)
    send(deps_->membership, Suspected{peer});
  return unsent;
}

PeerTraffic& Communicator::traffic_with(int peer) {
  const auto earlier = [](const PeerTraffic& t, int rank) { return t.peer < rank; };
  const auto at = std::lower_bound(traffic_.begin(), traffic_.end(), peer, earlier);
  return at != traffic_.end() && at->peer == peer ? *at : *traffic_.insert(at, {peer});
}

void Communicator::arm(const Arm& a) {
  const auto id = static_cast<size_t>(a.timer);
  if (alarms_.size() <= id) alarms_.resize(id + 1);
  Alarm& alarm = alarms_[id];
  alarm.wanted = a.at;
  if (alarm.wanted >= alarm.under_way) return;
  alarm.under_way = alarm.wanted;
  scheduled_send(caf::actor_cast<CommunicatorActor>(this), deps_->clock.instant(a.at),
                 Tick{a.timer});
}

void Communicator::tick(int id) {
  Alarm& alarm = alarms_[static_cast<size_t>(id)];
  const double at = now();
  constexpr double kTick = 1e-9;  // resolution of the clock
  if (alarm.under_way <= at + kTick) alarm.under_way = kNever;
  if (alarm.wanted <= at + kTick) {
    now_ = std::max(now_, alarm.wanted);  // the timer is due; the difference is rounding
    alarm.wanted = kNever;
    handle([&](Effects& out) { conversation_->timer(now_, id, out); });
  } else if (alarm.wanted < alarm.under_way) {
    arm({id, alarm.wanted});
  }
}

void Communicator::obey(Order order) {
  switch (order) {
    case Order::pause:
      if (!held_) held_ = std::make_unique<std::vector<caf::message>>();
      return;
    case Order::resume:
      if (const auto held = std::exchange(held_, nullptr))
        for (caf::message& m : *held)
          caf::anon_send(caf::actor_cast<caf::actor>(this), std::move(m));
      return;
    case Order::drain:
    case Order::leave:
      handle([&](Effects& out) {
        conversation_->drain(now(), out);
        if (order == Order::leave) conversation_->leave(now_, out);
      });
  }
}

void Communicator::hold(caf::message message) {
  if (held_->size() >= kHeldAtMost) return void(++overflowed_);
  held_->push_back(std::move(message));
}

CommunicatorReport Communicator::report() const {
  uint64_t bytes = 0;
  for (const PeerTraffic& t : traffic_)
    bytes += t.bytes;
  return {rank_,
          conversation_->quiet(),
          frames_,
          bytes,
          conversation_->counts(),
          conversation_->edge_counts(),
          traffic_,
          overflowed_};
}

Communicator::behavior_type Communicator::make_behavior() {
  return {
      [this](Frame& frame) {
        if (held_) return hold(caf::make_message(frame));
        const Payload payload = payload_of(frame.header, std::move(frame.payload));
        handle([&](Effects& out) { conversation_->frame(now(), frame.header, payload, out); });
      },
      [this](Tick t) {
        if (held_) return hold(caf::make_message(t));
        tick(t.id);
      },
      [this](Taken& t) {
        if (held_) return hold(caf::make_message(t));
        handle([&](Effects& out) {
          conversation_->taken(now(), t.ticket, std::move(t.payload), t.limits, out);
        });
      },
      [this](Judged j) { conversation_->judged(j.peer, j.verdict); },
      [this](Messages& m) {
        handle([&](Effects& out) { conversation_->step_ready(now(), std::move(m), out); });
      },
      [this](const ViewPtr& view) {
        if (view->eta != eta_ || view->epoch != epoch_) {
          eta_ = view->eta;
          epoch_ = view->epoch;
          send(state_, SetView{rank_, view});
        }
        handle([&](Effects& out) { conversation_->view(now(), *view, out); });
      },
      [this](PeerDown down) {
        handle([&](Effects& out) {
          conversation_->peer_down(now(), down.rank, down.incarnation, out);
        });
      },
      [this](Order order) { obey(order); },
      [this](Report) { return report(); },
  };
}

void Communicator::on_exit() {
  conversation_.reset();
  held_.reset();
  deps_.reset();
  state_ = nullptr;
}

}  // namespace grapevine
