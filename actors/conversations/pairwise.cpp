#include "actors/conversations/pairwise.hpp"

#include <algorithm>
#include <utility>

namespace grapevine {

namespace {

constexpr double kLongAgo = -1e9;
constexpr uint64_t kNumberMask = (uint64_t{1} << 40) - 1;  // a ticket is (partner, number)

}  // namespace

Pairwise::Pairwise(const PairwiseOptions& options)
    : round_trip_s_(options.round_trip_s), duration_s_(options.duration_s), policy_(options) {
  own_.rank = options.rank;
  own_.least_timeout_s = options.least_timeout_s;
  own_.most_timeout_s = options.most_timeout_s;
}

// --- epochs

Partner* Pairwise::find(int peer) {
  for (Partner& p : partners_)
    if (p.exchange.peer() == peer) return &p;
  return nullptr;
}

Partner& Pairwise::add(const EdgeView& edge, double now) {
  Partner& p = partners_.emplace_back(Partner{PairExchange(
      edge.peer, own_.incarnation, edge.peer_incarnation, round_trip_s_, duration_s_)});
  p.exchange.set_opened_at(kLongAgo + edge.colour);
  p.not_before = now;
  return p;
}

void Pairwise::view(double now, const View& view, Effects& out) {
  own_.epoch = view.epoch;
  for (Partner& p : partners_) {
    if (view.incarnation == own_.incarnation) break;
    // The peers, which took this rank for dead, have done so too.
    if (own_.incarnation != 0) abandon(now, p, out);
    p.exchange.rise(own_.incarnation, view.incarnation);
  }
  own_.incarnation = view.incarnation;
  own_.alpha_tilde = view.alpha_tilde;
  for (Partner& p : partners_)
    p.in_graph = false;
  double rate = 0;
  for (const EdgeView& edge : view.edges) {
    Partner* known = find(edge.peer);
    if (known != nullptr) {
      // An end without an exchange uses the view's incarnation, even if it has heard of a later
      // one.
      const PairExchange& x = known->exchange;
      const bool unused = !x.is_open() && x.done() == 0;
      const bool back = unused && edge.peer_incarnation < x.peer_incarnation();
      if (edge.peer_incarnation > x.peer_incarnation() || back) {
        abandon(now, *known, out);
        known->exchange.meet(edge.peer_incarnation);
        // It may have been used with that incarnation before: numbers are not used twice.
        if (back) known->exchange.rise(own_.incarnation, own_.incarnation);
      }
    }
    Partner& p = known != nullptr ? *known : add(edge, now);
    p.in_graph = true;
    p.wanted_rate = edge.wanted_rate;
    rate += edge.wanted_rate;
    if (policy_.rings() && own_.rank < edge.peer) {
      policy_.wind_up(now, p);
      out.arms.push_back({clock(p), p.rings_at});
    }
  }
  policy_.learn(now, rate, static_cast<int>(view.edges.size()));
  consider(now, out);
}

void Pairwise::peer_down(double now, int peer, uint32_t incarnation, Effects& out) {
  Partner* p = find(peer);
  // A peer with a later incarnation has already dropped the exchanges of this one.
  if (p == nullptr || p->exchange.peer_incarnation() > incarnation) return;
  abandon(now, *p, out);
  p->in_graph = false;
  p->exchange.meet(incarnation + 1);  // frames of the dead incarnation are older
  double rate = 0;  // summed again: a difference would leave a rounding error instead of zero
  int degree = 0;
  for (const Partner& other : partners_) {
    rate += other.in_graph ? other.wanted_rate : 0;
    degree += other.in_graph;
  }
  policy_.learn(now, rate, degree);
  consider(now, out);
}

void Pairwise::leave(double now, Effects& out) {
  for (Partner& p : partners_)
    abandon(now, p, out);
}

void Pairwise::abandon(double now, Partner& p, Effects& out) {
  release(now, p);
  p.exchange.abandon(at(now, out));
  p.caller = false;
}

bool Pairwise::quiet() const {
  return std::none_of(partners_.begin(), partners_.end(), [](const Partner& p) {
    return p.exchange.waits_for_answer() || p.exchange.is_open();
  });
}

std::vector<EdgeCount> Pairwise::edge_counts() const {
  std::vector<EdgeCount> counts;
  for (const Partner& p : partners_) {
    const PairExchange& x = p.exchange;
    counts.push_back(
        {x.peer(), x.exchanges(), x.applied_at(), p.in_graph, p.clipped, p.not_finite});
  }
  return counts;
}

// --- offers

void Pairwise::consider(double now, Effects& out) {
  const PartnerPolicy::Choice choice = policy_.choose(now, partners_);
  if (choice.partner >= 0) return offer(now, partners_[static_cast<size_t>(choice.partner)], out);
  if (choice.again_at < kNever) out.arms.push_back({kWake, choice.again_at});
}

void Pairwise::offer(double now, Partner& p, Effects& out) {
  policy_.offered(p);
  std::vector<double> timeouts;
  timeouts.reserve(partners_.size());
  for (const Partner& other : partners_)
    timeouts.push_back(other.exchange.timeout(own_));
  const double most = 2 * usual_of(timeouts);
  p.exchange.offer(at(now, out), repeats(p), std::min(p.exchange.timeout(own_), most));
}

void Pairwise::release(double now, const Partner& p) {
  counts_.longest_offer_s = std::max(counts_.longest_offer_s, policy_.release(now, p));
}

void Pairwise::open(double now, Partner& p, uint64_t epoch, bool accept_due, Effects& out) {
  release(now, p);
  const uint64_t ticket =
      static_cast<uint64_t>(index_of(p)) << 40 | ((p.exchange.done() + 1) & kNumberMask);
  p.exchange.open(at(now, out), epoch, accept_due, ticket);
  counts_.waited_s += policy_.opened(now, partners_, p);
}

void Pairwise::taken(double now, uint64_t ticket, Payload payload, const Limits& limits,
                     Effects& out) {
  Partner& p = partners_[static_cast<size_t>(ticket >> 40)];
  const bool asked_for =
      (ticket & kNumberMask) == ((p.exchange.done() + 1) & kNumberMask) && p.exchange.taking();
  if (!asked_for) return;
  go_on(now, p, p.exchange.taken(at(now, out), std::move(payload), limits, repeats(p)), out);
}

void Pairwise::judged(int peer, Guard::Verdict verdict) {
  const bool clipped = verdict == Guard::Verdict::far;
  ++(clipped ? counts_.clipped : counts_.not_finite);
  if (Partner* p = find(peer)) ++(clipped ? p->clipped : p->not_finite);
}

// --- frames and timers

void Pairwise::frame(double now, const FrameHeader& h, const Payload& payload, Effects& out) {
  Partner* known = find(static_cast<int>(h.from));
  if (known == nullptr) {  // a neighbour in its epoch, but not in this rank's
    // (Before its first view a rank does not know its incarnation. A number above 1 then belongs to
    // an earlier one.)
    if (h.kind != FrameKind::offer || h.to_incarnation != own_.incarnation || h.number > 1) return;
    Partner& stranger = add({static_cast<int>(h.from), h.from_incarnation, 0, 0}, now);
    stranger.in_graph = false;
    return answer(now, stranger, h, out);
  }
  Partner& p = *known;
  PairExchange& x = p.exchange;
  if (h.from_incarnation > x.peer_incarnation()) {
    abandon(now, p, out);
    x.meet(h.from_incarnation);
  }
  Next next = x.hear(at(now, out), h, payload, repeats(p));
  if (next == Next::finished && h.number > x.done()) {
    go_on(now, p, next, out);
    next = x.hear(at(now, out), h, payload, repeats(p));
  }
  if (next == Next::answer) return answer(now, p, h, out);
  if (next == Next::open) {
    open(now, p, h.epoch, false, out);
    next =
        h.kind == FrameKind::data ? x.receive(at(now, out), h, payload, repeats(p)) : Next::nothing;
  }
  go_on(now, p, next, out);
}

void Pairwise::answer(double now, Partner& p, const FrameHeader& h, Effects& out) {
  DeclineReason reason = DeclineReason::epoch;
  if (h.epoch == own_.epoch && p.in_graph) {
    if (p.exchange.offered()) return open(now, p, h.epoch, false, out);  // crossing offers
    reason = policy_.refusal(now, partners_, p);
    if (reason == DeclineReason::none) return open(now, p, h.epoch, true, out);
    policy_.refused(now, p);
  }
  p.exchange.decline(at(now, out), h, reason);
}

void Pairwise::go_on(double now, Partner& p, Next next, Effects& out) {
  switch (next) {
    case Next::nothing:
    case Next::answer:
    case Next::open: return;
    case Next::declined:
      release(now, p);
      policy_.declined(now, p);
      break;
    case Next::applied: break;
    case Next::renewed:
      release(now, p);
      p.caller = false;
      break;
    case Next::finished: policy_.finished(now - p.exchange.opened_at()); break;
  }
  consider(now, out);
}

void Pairwise::timer(double now, int id, Effects& out) {
  if (id == kWake) return consider(now, out);
  Partner& p = partners_[static_cast<size_t>((id - 1) / 2)];
  if (id % 2 != 0) return repeat(now, p, out);
  if (!policy_.ring(p)) return;
  out.arms.push_back({clock(p), p.rings_at});
  consider(now, out);
}

// This rank does not wait for an answer to an offer that was not sent. It is repeated like a lost
// one.
void Pairwise::unsent(double now, const FrameHeader& h, Effects& out) {
  Partner* p = find(static_cast<int>(h.to));
  if (p != nullptr && h.kind == FrameKind::offer) lapse(now, *p, out);
}

/// An offer lapses: the rank may make another one.
void Pairwise::lapse(double now, Partner& p, Effects& out) {
  if (!p.exchange.offered() || p.exchange.lapsed()) return;
  p.exchange.lapse();
  release(now, p);
  consider(now, out);
}

void Pairwise::repeat(double now, Partner& p, Effects& out) {
  PairExchange& x = p.exchange;
  if (x.idle() || x.taking()) return;
  if (x.offered() && !x.lapsed()) policy_.unanswered();
  lapse(now, p, out);
  x.repeat(at(now, out), repeats(p), policy_.repeat_cap());
}

}  // namespace grapevine
