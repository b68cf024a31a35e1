// One exchange, from the offer to its end. The policy of a rank (when, with whom) is in
// pairwise.cpp.
#include <algorithm>
#include <utility>

#include "actors/conversations/pairwise.hpp"
#include "kernels/check.hpp"

namespace grapevine {

namespace {

constexpr double kClockJitter = 0.1;  // of the rank's own clock
constexpr double kDebt = 3;           // intervals of lateness that are caught up
constexpr double kLost =
    1.25;  // durations after which data that nobody acknowledged are sent again
constexpr uint64_t kNumberMask = (uint64_t{1} << 40) - 1;  // a ticket is (end, number)

}  // namespace

void Pairwise::send(End& e, FrameKind kind, uint64_t number, Effects& out, DeclineReason reason) {
  Payload payload = kind == FrameKind::data ? e.open->sent : Payload{};
  FrameHeader h = header_of(kind, {options_.rank, incarnation_}, {e.peer, e.peer_incarnation},
                            e.open ? e.open->epoch : epoch_, number, payload);
  h.reason = reason;
  h.part = kind == FrameKind::decline ? e.peer_attempt : e.attempt;
  h.alpha_tilde = e.open ? e.open->alpha_tilde : alpha_tilde_;
  out.sends.push_back({h, std::move(payload)});
}

void Pairwise::offer(double now, End& e, Effects& out) {
  e.offered = true;
  e.lapsed = false;
  e.offered_at = now;
  e.backoff = 1;
  ++e.attempt;
  offered_to_ = index_of(e);
  send(e, FrameKind::offer, e.done + 1, out);
  const double patience = std::min(timeout(e), 2 * least_timeout());
  arm_repeat(e, now + patience + options_.least_timeout_s, out);
}

void Pairwise::release(double now, End& e) {
  if (offered_to_ != index_of(e)) return;
  counts_.longest_offer_s = std::max(counts_.longest_offer_s, now - e.offered_at);
  offered_to_ = -1;
}

void Pairwise::open(double now, End& e, uint64_t epoch, bool owes_accept, Effects& out) {
  GV_CHECK(!e.open);
  release(now, e);
  e.open = std::make_unique<Exchange>();
  e.open->epoch = epoch;
  e.open->alpha_tilde = e.open->peer_alpha_tilde = alpha_tilde_;
  e.open->owes_accept = owes_accept;
  e.offered = e.lapsed = e.caller = false;
  e.backoff = 1;
  if (e.backlog > 0) --e.backlog;
  e.opened_at = now;
  if (options_.pairing == Pairing::free) {
    last_partners_.push_back(e.peer);
    if (last_partners_.size() > std::max<size_t>(1, ends_.size() / 2))
      last_partners_.erase(last_partners_.begin());
  }
  counts_.waited_s += std::max(0.0, now - std::max(due_, last_open_));
  last_open_ = now;
  if (rate_ > 0) {
    const double jitter = 1 + kClockJitter * (2 * random_.uniform() - 1);
    due_ = std::max(due_, now - kDebt / rate_) + jitter / rate_;
  }
  for (End& other : ends_)
    other.not_before = std::min(other.not_before, now);
  ++counts_.opened;
  const auto index = static_cast<uint64_t>(index_of(e));
  out.requests.push_back(Take{index << 40 | ((e.done + 1) & kNumberMask), key(e), 0, 0});
}

ExchangeKey Pairwise::key(const End& e) const {
  return {e.peer, incarnation_, e.peer_incarnation, e.done + 1};
}

void Pairwise::taken(double now, uint64_t ticket, Payload payload, Effects& out) {
  End& e = ends_[static_cast<size_t>(ticket >> 40)];
  const bool asked_for = (ticket & kNumberMask) == ((e.done + 1) & kNumberMask);
  if (!e.open || !e.open->taking || !asked_for) return;
  const bool owes_accept = e.open->owes_accept;
  if (!payload) {  // nothing has left yet, so this end may still say no
    e.open.reset();
    e.not_before = ask_again_at(now);
    if (owes_accept) send(e, FrameKind::decline, e.done + 1, out, DeclineReason::no_buffer);
    return consider(now, out);
  }
  e.open->taking = false;
  e.open->sent = std::move(payload);
  e.open->sent_at = now;
  if (owes_accept) send(e, FrameKind::accept, e.done + 1, out);
  send(e, FrameKind::data, e.done + 1, out);
  arm_repeat(e, now + 2 * e.duration + timeout(e) + options_.least_timeout_s, out);
  if (e.open->received) apply(now, e, out);
}

void Pairwise::apply(double now, End& e, Effects& out) {
  Exchange& x = *e.open;
  if (x.sent.count != x.received.count || x.sent.dtype != x.received.dtype) {  // not our model
    x.received = {};
    return void(++counts_.protocol_errors);
  }
  x.applied = true;
  e.applied_at = now;
  ++e.exchanges;
  ++counts_.applied;
  Apply jump;
  jump.exchange = key(e);
  jump.sent = x.sent;
  jump.received = std::exchange(x.received, {});
  jump.alpha_tilde = std::min(x.alpha_tilde, x.peer_alpha_tilde);
  out.requests.push_back(std::move(jump));
  send(e, FrameKind::ack, e.done + 1, out);
  if (x.acked) return settle(now, e, out);
  arm_repeat(e, now + timeout(e) * e.backoff + e.duration / 4 + options_.least_timeout_s, out);
  consider(now, out);
}

void Pairwise::settle(double now, End& e, Effects& out) {
  const double took = now - e.opened_at;
  e.duration += (took - e.duration) / 4;
  durations_[durations_known_++ % 4] = took;
  if (durations_known_ == 8) durations_known_ = 4;
  ++e.done;
  e.open.reset();
  arm_repeat(e, kNever, out);
  consider(now, out);
}

void Pairwise::abandon(double now, End& e, Effects&) {
  if (e.open) ++(e.open->applied ? counts_.broken_after : counts_.broken_before);
  release(now, e);
  e.open.reset();
  e.offered = e.caller = e.lapsed = false;
  e.done = 0;
  e.attempt = 0;
}

void Pairwise::peer_down(double now, int peer, Effects& out) {
  End* e = find(peer);
  if (e == nullptr) return;
  abandon(now, *e, out);
  degree_ -= e->in_graph;
  e->in_graph = false;
  rate_ = 0;  // summed anew: a difference would leave a rounding error for zero
  for (const End& other : ends_)
    rate_ += other.in_graph ? other.wanted_rate : 0;
  ++e->peer_incarnation;  // frames of the dead one are older
  consider(now, out);
}

// --- frames

void Pairwise::frame(double now, const FrameHeader& m, const Payload& payload, Effects& out) {
  End* end = find(static_cast<int>(m.from));
  if (end == nullptr) {  // a neighbour in its epoch, not in ours
    if (m.kind == FrameKind::offer && m.to_incarnation == incarnation_) {
      End& e = add_end({static_cast<int>(m.from), m.from_incarnation, 0, 0}, now);
      e.in_graph = false;
      on_offer(now, e, m, out);
    }
    return;
  }
  End& e = *end;
  if (m.to_incarnation != incarnation_ || m.from_incarnation < e.peer_incarnation) return;
  if (m.from_incarnation > e.peer_incarnation) {
    abandon(now, e, out);
    e.peer_incarnation = m.from_incarnation;
  }
  if (m.number <= e.done) {
    ++counts_.repeated;
    if (m.kind == FrameKind::data || m.kind == FrameKind::ask || m.kind == FrameKind::accept)
      send(e, FrameKind::ack, m.number, out);
    return;
  }
  // The peer has settled the exchange that is open here: this is its acknowledgement.
  if (m.number == e.done + 2 && e.open && e.open->applied) settle(now, e, out);
  if (m.number != e.done + 1) {
    ++counts_.protocol_errors;
    return;
  }
  switch (m.kind) {
    case FrameKind::offer: return on_offer(now, e, m, out);
    case FrameKind::accept: return on_accept(now, e, m, out);
    case FrameKind::data: return on_data(now, e, m, payload, out);
    case FrameKind::decline:
      if (!e.offered || m.part != e.attempt) return;
      learn_round_trip(now, e);
      e.offered = false;
      release(now, e);
      e.not_before = ask_again_at(now);
      return consider(now, out);
    case FrameKind::ack:
      if (!e.open) return;
      e.open->acked = true;
      if (e.open->applied) settle(now, e, out);
      return;
    case FrameKind::ask:
      if (!e.open) return open(now, e, m.epoch, false, out);
      if (e.open->taking) return void(e.open->owes_accept = true);
      return send(e, e.open->applied ? FrameKind::ack : FrameKind::accept, m.number, out);
    case FrameKind::chunk:
    case FrameKind::message: ++counts_.protocol_errors; return;
  }
}

void Pairwise::on_offer(double now, End& e, const FrameHeader& m, Effects& out) {
  e.peer_attempt = m.part;
  if (e.open) {
    if (e.open->taking) return void(e.open->owes_accept = true);
    if (!e.open->applied) send(e, FrameKind::accept, m.number, out);
    return;
  }
  DeclineReason reason = DeclineReason::epoch;
  if (m.epoch == epoch_ && e.in_graph) {
    if (e.offered) return open(now, e, m.epoch, false, out);  // crossing offers
    reason = refusal(now, e);
    if (reason == DeclineReason::none) return open(now, e, m.epoch, true, out);
    e.caller = true;
    e.not_before = now;
  }
  ++counts_.declined;
  send(e, FrameKind::decline, m.number, out, reason);
}

void Pairwise::on_accept(double now, End& e, const FrameHeader& m, Effects& out) {
  if (e.offered) learn_round_trip(now, e);
  if (!e.open) return open(now, e, m.epoch, false, out);
  if (e.open->taking) return;
  if (e.open->applied) send(e, FrameKind::ack, m.number, out);
  if (!e.open->acked && now - e.open->sent_at > kLost * e.duration) {
    e.open->sent_at = now;
    send(e, FrameKind::data, m.number, out);
  }
}

void Pairwise::on_data(double now, End& e, const FrameHeader& m, const Payload& payload,
                       Effects& out) {
  if (e.open && e.open->applied) {
    ++counts_.repeated;
    return send(e, FrameKind::ack, m.number, out);
  }
  if (!payload) return void(++counts_.protocol_errors);
  if (!e.open) open(now, e, m.epoch, false, out);
  e.open->received = payload;
  e.open->peer_alpha_tilde = m.alpha_tilde;
  if (!e.open->taking) apply(now, e, out);
}

}  // namespace grapevine
