#include "actors/conversations/pair_exchange.hpp"

#include <cmath>
#include <utility>

#include "kernels/base/check.hpp"

namespace grapevine {

namespace {

constexpr double kLost = 1.25;       // unacknowledged data is sent again after so many durations
constexpr uint32_t kUnheard = 64;    // of backoff: six repeats of an offer without an answer
constexpr uint32_t kSuspicious = 4;  // of backoff: the second repeat is being sent
constexpr uint32_t kSlowest = 1 << 20;
constexpr uint32_t kStrays = 8;       // so many in a row show that the two numbers cannot agree
constexpr uint32_t kRises = 1 << 10;  // an incarnation may be higher by this; more is not believed

}  // namespace

PairExchange::PairExchange(int peer, uint32_t incarnation, uint32_t peer_incarnation,
                           double round_trip_s, double duration_s)
    : peer_(peer),
      incarnation_(incarnation),
      peer_incarnation_(peer_incarnation),
      round_trip_(round_trip_s),
      duration_(duration_s) {}

bool PairExchange::waits_for_answer() const { return offered_ && backoff_ <= kUnheard; }

bool PairExchange::silent() const { return offered_ && backoff_ >= kSuspicious; }

ExchangeKey PairExchange::key() const {
  return {peer_, incarnation_, peer_incarnation_, done_ + 1};
}

void PairExchange::send(const Moment& m, FrameKind kind, uint64_t number, DeclineReason reason) {
  Payload payload = kind == FrameKind::data ? open_->sent : Payload{};
  FrameHeader h = header_of(kind, {m.own.rank, incarnation_}, {peer_, peer_incarnation_},
                            open_ ? open_->epoch : m.own.epoch, number, payload);
  h.reason = reason;
  h.part = kind == FrameKind::decline ? peer_attempt_ : attempt_;
  h.alpha_tilde = open_ ? open_->alpha_tilde : m.own.alpha_tilde;
  if (kind == FrameKind::data) {
    h.bound = open_->limits.bound;
    h.allowance = open_->limits.allowance;
  }
  m.out.sends.push_back({h, std::move(payload)});
}

// --- actions of the owner

void PairExchange::offer(const Moment& m, int timer, double patience_s) {
  offered_ = true;
  lapsed_ = false;
  offered_at_ = m.now;
  backoff_ = 1;
  ++attempt_;
  send(m, FrameKind::offer, done_ + 1);
  m.out.arms.push_back({timer, m.now + patience_s + m.own.least_timeout_s});
}

void PairExchange::open(const Moment& m, uint64_t epoch, bool accept_due, uint64_t ticket) {
  GV_CHECK(!open_);
  open_ = std::make_unique<Open>();
  open_->epoch = epoch;
  open_->alpha_tilde = open_->peer_alpha_tilde = m.own.alpha_tilde;
  open_->accept_due = accept_due;
  offered_ = lapsed_ = false;
  backoff_ = 1;
  opened_at_ = m.now;
  ++m.counts.opened;
  m.out.requests.push_back(Take{ticket, key(), 0, 0});
}

void PairExchange::decline(const Moment& m, const FrameHeader& offer, DeclineReason reason) {
  peer_attempt_ = offer.part;
  ++m.counts.declined;
  send(m, FrameKind::decline, offer.number, reason);
}

// --- snapshots and jumps

PairExchange::Next PairExchange::taken(const Moment& m, Payload payload, const Limits& limits,
                                       int timer) {
  const bool accept_due = open_->accept_due;
  if (!payload) {  // nothing was sent yet, so this end may still decline
    open_.reset();
    if (accept_due) send(m, FrameKind::decline, done_ + 1, DeclineReason::no_buffer);
    return Next::declined;
  }
  open_->taking = false;
  open_->sent = std::move(payload);
  open_->sent_at = m.now;
  open_->limits = limits;
  if (accept_due) send(m, FrameKind::accept, done_ + 1);
  send(m, FrameKind::data, done_ + 1);
  m.out.arms.push_back({timer, m.now + 2 * duration_ + timeout(m.own) + m.own.least_timeout_s});
  return open_->received ? apply(m, timer) : Next::nothing;
}

PairExchange::Next PairExchange::receive(const Moment& m, const FrameHeader& h,
                                         const Payload& payload, int timer) {
  open_->received = payload;
  open_->peer_alpha_tilde = h.alpha_tilde;
  open_->peer_limits = {h.bound, h.allowance};
  return open_->taking ? Next::nothing : apply(m, timer);
}

PairExchange::Next PairExchange::apply(const Moment& m, int timer) {
  Open& x = *open_;
  if (x.sent.count != x.received.count || x.sent.dtype != x.received.dtype) {  // not our model
    x.received = {};
    ++m.counts.protocol_errors;
    return Next::nothing;
  }
  x.applied = true;
  applied_at_ = m.now;
  ++exchanges_;
  ++m.counts.applied;
  Apply jump;
  jump.exchange = key();
  jump.sent = x.sent;
  jump.received = std::exchange(x.received, {});
  jump.alpha_tilde = std::min(x.alpha_tilde, x.peer_alpha_tilde);
  jump.own = x.limits;
  jump.theirs = x.peer_limits;
  m.out.requests.push_back(std::move(jump));
  send(m, FrameKind::ack, done_ + 1);
  if (x.acked) return finish(m, timer);
  m.out.arms.push_back(
      {timer, m.now + timeout(m.own) * backoff_ + duration_ / 4 + m.own.least_timeout_s});
  return Next::applied;
}

PairExchange::Next PairExchange::finish(const Moment& m, int timer) {
  // An answer to a repeated message includes the wait of this end. If time-outs have an upper
  // bound, the duration is measured from the repeat; otherwise each wait would make the next one
  // longer.
  const bool waited = m.own.most_timeout_s < kNever && open_->repeated_at > 0;
  duration_ += (m.now - (waited ? open_->repeated_at : opened_at_) - duration_) / 4;
  ++done_;
  strays_.reset();
  open_.reset();
  m.out.arms.push_back({timer, kNever});
  return Next::finished;
}

void PairExchange::abandon(const Moment& m) {
  if (open_) ++(open_->applied ? m.counts.broken_after : m.counts.broken_before);
  if (applied()) {
    Apply half;
    half.operation = Apply::Operation::missing;
    half.exchange = key();
    m.out.requests.push_back(std::move(half));
  }
  open_.reset();
  offered_ = lapsed_ = false;
  done_ = 0;
  attempt_ = peer_attempt_ = 0;
  strays_.reset();
}

void PairExchange::meet(uint32_t peer_incarnation) { peer_incarnation_ = peer_incarnation; }

void PairExchange::rise(uint32_t ranks_before, uint32_t ranks_now) {
  incarnation_ = std::max(ranks_now + (incarnation_ - ranks_before), incarnation_ + 1);
}

// --- numbers that cannot agree

PairExchange::Next PairExchange::renew(const Moment& m, uint32_t incarnation) {
  abandon(m);
  incarnation_ = incarnation;
  ++m.counts.renewed;
  return Next::renewed;
}

// A single such frame may be late or forged. But an end that cannot continue sends the same number
// over and over. A row of these, with no matching frame between them, can never agree with ours.
bool PairExchange::is_row(const FrameHeader& h) {
  const bool goes_on =
      strays_ && h.number == strays_->number && h.to_incarnation == strays_->to_incarnation;
  if (!goes_on) strays_ = std::make_unique<Row>(Row{h.number, h.to_incarnation, 0});
  return ++strays_->length >= kStrays;
}

PairExchange::Next PairExchange::stray(const Moment& m, const FrameHeader& h) {
  return is_row(h) ? renew(m, incarnation_ + 1) : Next::nothing;
}

// A frame with other incarnations than those of these two ends.
PairExchange::Next PairExchange::misaddressed(const Moment& m, const FrameHeader& h) {
  const bool offer = h.kind == FrameKind::offer;
  if (h.to_incarnation > incarnation_) {  // the peer knows a later incarnation of this end
    const bool believed = h.to_incarnation - incarnation_ <= kRises;
    const bool told = h.kind == FrameKind::decline && h.reason == DeclineReason::epoch &&
                      offered_ && h.number == done_ + 1 && h.part == attempt_;
    if (believed && (told || (offer && is_row(h)))) return renew(m, h.to_incarnation + 1);
  } else if (offer && is_row(h)) {  // the peer knows an earlier incarnation, and is told
    strays_.reset();
    peer_attempt_ = h.part;
    send(m, FrameKind::decline, h.number, DeclineReason::epoch);
  }
  return Next::nothing;
}

// --- frames

PairExchange::Next PairExchange::hear(const Moment& m, const FrameHeader& h, const Payload& payload,
                                      int timer) {
  if (h.to_incarnation != incarnation_ || h.from_incarnation != peer_incarnation_)
    return misaddressed(m, h);
  if (h.number <= done_) {
    ++m.counts.repeated;
    const bool fresh = h.kind == FrameKind::offer && h.part > peer_attempt_;
    if (fresh) {
      peer_attempt_ = h.part;
      return stray(m, h);
    }
    if (h.kind == FrameKind::data || h.kind == FrameKind::ask || h.kind == FrameKind::accept)
      send(m, FrameKind::ack, h.number);
    return Next::nothing;
  }
  // An answer to an offer of an earlier incarnation; it only shows that there is a later one.
  if (h.kind == FrameKind::decline && h.number > done_ + 1) {
    ++m.counts.repeated;
    return Next::nothing;
  }
  // The peer has finished the exchange that is open here: its frame acknowledges this end's.
  if (h.number == done_ + 2 && applied()) return finish(m, timer);
  if (h.number != done_ + 1) {
    ++m.counts.protocol_errors;
    return stray(m, h);
  }
  strays_.reset();
  switch (h.kind) {
    case FrameKind::offer: return hear_offer(m, h);
    case FrameKind::accept: return hear_accept(m, h);
    case FrameKind::decline:
      if (!offered_ || h.part != attempt_) return Next::nothing;
      learn_round_trip(m);
      offered_ = false;
      return Next::declined;
    case FrameKind::data:
      if (applied()) {
        ++m.counts.repeated;
        send(m, FrameKind::ack, h.number);
        return Next::nothing;
      }
      if (!payload) break;
      return open_ ? receive(m, h, payload, timer) : Next::open;
    case FrameKind::ack:
      if (!open_) return Next::nothing;
      open_->acked = true;
      return open_->applied ? finish(m, timer) : Next::nothing;
    case FrameKind::ask:
      if (!open_) return Next::open;
      if (open_->taking) {
        open_->accept_due = true;
      } else {
        send(m, open_->applied ? FrameKind::ack : FrameKind::accept, h.number);
      }
      return Next::nothing;
    default: break;  // of other conversations
  }
  ++m.counts.protocol_errors;
  return Next::nothing;
}

PairExchange::Next PairExchange::hear_offer(const Moment& m, const FrameHeader& h) {
  peer_attempt_ = h.part;
  if (!open_) return Next::answer;
  if (open_->taking) {
    open_->accept_due = true;
  } else if (!open_->applied) {
    send(m, FrameKind::accept, h.number);
  }
  return Next::nothing;
}

PairExchange::Next PairExchange::hear_accept(const Moment& m, const FrameHeader& h) {
  if (offered_) learn_round_trip(m);
  if (!open_) return Next::open;
  if (open_->taking) return Next::nothing;
  if (open_->applied) send(m, FrameKind::ack, h.number);
  if (!open_->acked && m.now - open_->sent_at > kLost * duration_) {
    open_->sent_at = open_->repeated_at = m.now;
    send(m, FrameKind::data, h.number);
  }
  return Next::nothing;
}

// --- time-outs

void PairExchange::repeat(const Moment& m, int timer, double cap_s) {
  backoff_ = std::min(uint32_t{2} * backoff_, kSlowest);
  if (backoff_ == kSuspicious) m.out.suspects.push_back(peer_);
  // The minimum doubles too, because the rest may be zero if answers take no time.
  const double least_s = m.own.least_timeout_s;
  double wait = std::max(timeout(m.own), least_s) * backoff_ + least_s;
  if (offered_) {
    send(m, FrameKind::offer, done_ + 1);
  } else {
    open_->repeated_at = m.now;
    send(m, open_->acked ? FrameKind::accept : FrameKind::ask, done_ + 1);
    if (!open_->applied) wait += duration_;
  }
  const double cap = std::max({cap_s, timeout(m.own), m.own.least_timeout_s});
  m.out.arms.push_back({timer, m.now + std::min(wait, cap)});
}

void PairExchange::learn_round_trip(const Moment& m) {
  if (backoff_ != 1) return;  // only from first transmissions
  const double sample = m.now - offered_at_;
  m.out.round_trips.push_back({peer_, sample});
  round_trip_.add(sample);
}

}  // namespace grapevine
