#include "actors/conversations/rounds.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/base/check.hpp"

namespace grapevine {

namespace {

constexpr int kPhaseLate = 0, kWriteAgain = 1;  // timers
constexpr double kPatienceMost = 64;            // times the first patience
constexpr size_t kEarlyMost = 256;              // frames of later epochs
constexpr uint64_t kPhasesAhead = 256;          // phases that a neighbour may be ahead of this rank

}  // namespace

void Rounds::view(double now, const View& view, Effects& out) {
  const bool new_epoch = view.epoch != view_.epoch;
  view_ = view;
  if (!new_epoch) return;
  peers_.clear();
  for (const EdgeView& e : options_.partners ? view.ring : view.edges) {
    if (e.peer == options_.rank) place_ = peers_.size();
    peers_.push_back({.rank = e.peer, .incarnation = e.peer_incarnation});
  }
  number_ = 0;
  sent_.clear();
  sent_now_ = false;
  asked_ = false;
  if (active_ && options_.waits) ask_anew(out);
  std::vector<Early> early = std::exchange(early_, {});
  for (const Early& e : early)
    frame(now, e.header, e.payload, out);
}

void Rounds::ask_anew(Effects& out) {
  if (!std::exchange(asked_, true)) out.requests.emplace_back(Write{phase_});
}

Rounds::Peer* Rounds::find(int rank) {
  for (Peer& peer : peers_)
    if (peer.rank == rank) return &peer;
  return nullptr;
}

// The number of phases before this one that a peer may still request. Each neighbour has sent its
// message of the phase before, so it has combined all earlier ones.
uint64_t Rounds::kept() const {
  if (!options_.partners) return 1;
  const int ranks = std::max(2, static_cast<int>(peers_.size()));
  return static_cast<uint64_t>(options_.most_behind(ranks));
}

void Rounds::choose_peers() {
  if (options_.partners) {
    receivers_.clear(), senders_.clear();
    if (peers_.size() < 2) return;
    const int place = static_cast<int>(place_);
    const OnePeer peer = options_.partners(place, static_cast<int>(peers_.size()), number_);
    if (peer.to != place) receivers_.push_back(static_cast<size_t>(peer.to));
    if (peer.from != place) senders_.push_back(static_cast<size_t>(peer.from));
  } else if (receivers_.size() != peers_.size()) {
    receivers_.resize(peers_.size());
    std::iota(receivers_.begin(), receivers_.end(), size_t{0});
    senders_ = receivers_;
  }
}

void Rounds::send_message(const Peer& to, uint64_t number, const Payload& payload,
                          const Limits& limits, Effects& out) {
  FrameHeader h = header_of(FrameKind::message, {options_.rank, view_.incarnation},
                            {to.rank, to.incarnation}, view_.epoch, number, payload);
  h.part = static_cast<uint32_t>(phase_);
  h.bound = limits.bound;
  h.allowance = limits.allowance;
  out.sends.push_back({h, payload});
}

void Rounds::send(const Peer& to, FrameKind kind, uint64_t number, Effects& out,
                  DeclineReason reason) {
  FrameHeader h = header_of(kind, {options_.rank, view_.incarnation}, {to.rank, to.incarnation},
                            view_.epoch, number);
  h.reason = reason;
  out.sends.push_back({h, {}});
}

void Rounds::step_ready(double now, Messages messages, Effects& out) {
  if (!options_.waits) return step_at_once(now, std::move(messages), out);
  if (!active_) ++counts_.opened;
  active_ = true;
  if (view_.epoch == 0) return;  // the first view requests the messages
  if (messages.epoch != view_.epoch) return ask_anew(out);
  GV_CHECK(!sent_now_);
  GV_CHECK(messages.phase == phase_);
  asked_ = false;
  const auto has_room = [](const Outgoing& o) { return static_cast<bool>(o.payload); };
  if (!std::all_of(messages.outgoing.begin(), messages.outgoing.end(), has_room))
    return out.arms.push_back({kWriteAgain, now + options_.patience_s});
  sent_now_ = true;
  send_out(messages, out);
  advance(now, out);
}

void Rounds::send_out(Messages& messages, Effects& out) {
  choose_peers();
  for (const size_t k : receivers_) {
    for (const Outgoing& o : messages.outgoing) {
      if (o.peer >= 0 && o.peer != peers_[k].rank) continue;
      if (!o.payload) continue;  // no buffer: like a message that the link lost
      send_message(peers_[k], number_, o.payload, o.limits, out);
      if (options_.waits) sent_.push_back({number_, peers_[k].rank, o.payload, o.limits});
    }
  }
}

// Called twice per step: with the gradient, and with the messages that follow from it.
void Rounds::step_at_once(double now, Messages messages, Effects& out) {
  active_ = !active_;
  if (!active_) {
    if (messages.epoch == view_.epoch) send_out(messages, out);
    return void(++number_);
  }
  ++counts_.opened;
  ++counts_.applied;
  Apply apply;
  apply.operation = Apply::Operation::combine;
  for (Peer& peer : peers_) {
    use(now, peer);
    put(peer.arrived.empty() ? Arrived{} : std::move(peer.arrived[0]), apply);
    peer.arrived.clear();
  }
  out.requests.emplace_back(std::move(apply));
}

void Rounds::advance(double now, Effects& out) {
  if (!active_ || !sent_now_) return;
  std::vector<Arrived> incoming(senders_.size());
  for (size_t k = 0; k < senders_.size(); ++k) {
    Peer& peer = peers_[senders_[k]];
    const auto found = std::find_if(peer.arrived.begin(), peer.arrived.end(),
                                    [&](const Arrived& a) { return a.number == number_; });
    if (found == peer.arrived.end()) return wait(now, patience(), out);
    incoming[k] = *found;
  }
  for (const size_t k : senders_) {
    Peer& peer = peers_[k];
    use(now, peer);
    std::erase_if(peer.arrived, [&](const Arrived& a) { return a.number <= number_; });
  }
  combine(std::move(incoming), out);
}

void Rounds::use(double now, Peer& peer) {
  if (peer.arrived.empty()) return;
  ++peer.used;
  peer.used_at = now;
}

void Rounds::put(Arrived arrived, Apply& apply) {
  apply.incoming.push_back(std::move(arrived.payload));
  apply.limits.push_back(arrived.limits);
}

void Rounds::combine(std::vector<Arrived> incoming, Effects& out) {
  Apply apply;
  apply.operation = Apply::Operation::combine;
  for (Arrived& arrived : incoming)
    put(std::move(arrived), apply);
  apply.phase = phase_;
  out.requests.push_back(std::move(apply));
  ++number_;
  sent_now_ = false;
  std::erase_if(sent_, [&, kept = kept()](const Sent& s) { return s.number + kept < number_; });
  out.arms.push_back({kPhaseLate, kNever});
  phase_ = (phase_ + 1) % options_.phases;
  if (phase_ > 0) return;
  active_ = false;
  ++counts_.applied;
  excuse(out);
}

void Rounds::drain(double now, Effects& out) {
  draining_ = true;
  excuse(out);
  if (active_ && sent_now_ && patience() < options_.patience_s) wait(now, patience(), out);
}

// For the next step, which this rank does not begin: both ends continue without the other's
// message.
void Rounds::excuse(Effects& out) {
  const bool excuses = options_.finishes && options_.waits && !options_.partners;
  if (!excuses || !draining_ || active_) return;
  for (Peer& peer : peers_) {
    for (Arrived& arrived : peer.arrived) {
      if (!arrived.payload) continue;
      send(peer, FrameKind::decline, arrived.number, out, DeclineReason::gone);
      arrived.payload = {};
    }
  }
}

void Rounds::frame(double now, const FrameHeader& m, const Payload& payload, Effects& out) {
  if (m.epoch > view_.epoch) {
    if (early_.size() < kEarlyMost) early_.push_back({m, payload});
    return;
  }
  Peer* peer = find(static_cast<int>(m.from));
  const bool current = m.epoch == view_.epoch && peer != nullptr &&
                       m.from_incarnation == peer->incarnation &&
                       m.to_incarnation == view_.incarnation;
  if (!current) return void(++counts_.declined);
  switch (m.kind) {
    case FrameKind::message: return arrive(now, *peer, m, payload, out);
    case FrameKind::decline: return arrive(now, *peer, m, {}, out);
    case FrameKind::ask: return answer(*peer, m, out);
    default: ++counts_.protocol_errors;
  }
}

void Rounds::arrive(double now, Peer& peer, const FrameHeader& m, const Payload& payload,
                    Effects& out) {
  if (m.kind == FrameKind::message && !payload) return void(++counts_.protocol_errors);
  if (!options_.waits) {
    if (m.number < peer.next) return void(++counts_.repeated);
    peer.next = m.number + 1;
    peer.arrived.assign(1, {m.number, payload, {m.bound, m.allowance}});
    return;
  }
  const bool known = std::any_of(peer.arrived.begin(), peer.arrived.end(),
                                 [&](const Arrived& a) { return a.number == m.number; });
  if (known || m.number < number_) return void(++counts_.repeated);
  if (m.number > number_ + kPhasesAhead) return void(counts_.protocol_errors += !draining_);
  counts_.lost += !payload;
  peer.arrived.push_back({m.number, payload, {m.bound, m.allowance}});
  excuse(out);
  if (never_used(m.number)) peer.arrived.back().payload = {};
  advance(now, out);
}

// In a drain a rank begins at most one more step, with the gradient that is under way. Later
// messages of ranks that have more steps to take would fill the pool of their senders. A neighbour
// asks for a message in return, and the answer frees its own. A partner asks another rank.
bool Rounds::never_used(uint64_t number) const {
  return options_.partners && draining_ &&
         number >= number_ + static_cast<uint64_t>(options_.phases);
}

void Rounds::answer(Peer& peer, const FrameHeader& m, Effects& out) {
  const auto found = std::find_if(sent_.begin(), sent_.end(), [&](const Sent& s) {
    return s.number == m.number && s.to == peer.rank;
  });
  if (found != sent_.end() && options_.resends)
    return send_message(peer, m.number, found->payload, found->limits, out);
  if (found == sent_.end() && m.number >= number_ && !draining_) return;
  send(peer, FrameKind::decline, m.number, out, DeclineReason::gone);
  if (found != sent_.end() || m.number < number_) return;
  // The other end continues without this rank's message, so this end continues without the other's,
  // even if a gradient that is under way still begins the round.
  std::erase_if(peer.arrived, [&](const Arrived& a) { return a.number == m.number; });
  peer.arrived.push_back({m.number, {}, {}});
}

void Rounds::wait(double now, double patience_s, Effects& out) {
  patience_s_ = patience_s;
  out.arms.push_back({kPhaseLate, now + patience_s});
}

void Rounds::timer(double now, int id, Effects& out) {
  if (!active_ || !options_.waits) return;
  if (!sent_now_) return id == kWriteAgain ? ask_anew(out) : void();
  for (const size_t k : senders_) {
    const Peer& peer = peers_[k];
    const bool there = std::any_of(peer.arrived.begin(), peer.arrived.end(),
                                   [&](const Arrived& a) { return a.number == number_; });
    if (there) continue;
    send(peer, FrameKind::ask, number_, out);
    if (patience_s_ > patience()) out.suspects.push_back(peer.rank);
  }
  wait(now, std::min(2 * patience_s_, kPatienceMost * patience()), out);
}

void Rounds::judged(int peer, Guard::Verdict verdict) {
  const bool clipped = verdict == Guard::Verdict::far;
  ++(clipped ? counts_.clipped : counts_.not_finite);
  counts_.lost += !clipped;
  if (Peer* known = find(peer)) ++(clipped ? known->clipped : known->not_finite);
}

std::vector<EdgeCount> Rounds::edge_counts() const {
  std::vector<EdgeCount> counts;
  for (const Peer& peer : peers_)
    counts.push_back({peer.rank, peer.used, peer.used_at, true, peer.clipped, peer.not_finite});
  return counts;
}

}  // namespace grapevine
