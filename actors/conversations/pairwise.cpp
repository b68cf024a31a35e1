#include "actors/conversations/pairwise.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/check.hpp"

namespace grapevine {

namespace {

constexpr double kInstant = 1e-9;  // wake a nanosecond after a limit: clocks count those
constexpr double kPatience = 2;    // intervals after which a repeated partner is allowed
constexpr double kAskAgain = 4;    // intervals after a decline
constexpr double kSlow = 2;        // usual durations after which an exchange is no longer busy
constexpr size_t kOpenAtMost = 4;  // snapshots held by one rank
constexpr int kUnheard = 64;       // backoff: six repeats of an offer without an answer
constexpr int kSuspicious = 4;     // backoff: the second repeat goes out
constexpr double kLongAgo = -1e9;

}  // namespace

Pairwise::Pairwise(const PairwiseOptions& options)
    : options_(options),
      random_(options.seed, static_cast<uint32_t>(options.rank), Purpose::gossip_timer) {}

// --- epochs

Pairwise::End* Pairwise::find(int peer) {
  for (End& e : ends_)
    if (e.peer == peer) return &e;
  return nullptr;
}

Pairwise::End& Pairwise::add_end(const EdgeView& edge, double now) {
  End& e = ends_.emplace_back();
  e.peer = edge.peer;
  e.peer_incarnation = edge.peer_incarnation;
  e.opened_at = kLongAgo + edge.colour;
  e.not_before = now;
  e.rtt = options_.round_trip_s;
  e.rtt_var = options_.round_trip_s / 2;
  e.duration = options_.duration_s;
  return e;
}

void Pairwise::view(double now, const View& view, Effects& out) {
  epoch_ = view.epoch;
  if (incarnation_ != 0 && view.incarnation != incarnation_) {
    for (End& e : ends_)  // this rank was taken for dead: the others have dropped what was open
      abandon(now, e, out);
  }
  incarnation_ = view.incarnation;
  alpha_tilde_ = view.alpha_tilde;
  for (End& e : ends_)
    e.in_graph = false;
  rate_ = 0;
  degree_ = static_cast<int>(view.edges.size());
  for (const EdgeView& edge : view.edges) {
    End* known = find(edge.peer);
    // A peer that was heard in its new incarnation before its old one was known to be over has been
    // counted an incarnation too far (peer_down); nothing has begun with that one.
    const bool unused = known != nullptr && !known->open && known->done == 0;
    if (known != nullptr && (edge.peer_incarnation > known->peer_incarnation ||
                             (unused && edge.peer_incarnation < known->peer_incarnation))) {
      abandon(now, *known, out);
      known->peer_incarnation = edge.peer_incarnation;
    }
    End& e = known != nullptr ? *known : add_end(edge, now);
    e.in_graph = true;
    e.wanted_rate = edge.wanted_rate;
    rate_ += edge.wanted_rate;
    if (options_.pairing == Pairing::poisson && options_.rank < e.peer) wind_up(now, e, out);
  }
  if (!started_ && rate_ > 0) {
    started_ = true;
    due_ = last_open_ = now + random_.uniform() / rate_;
  }
  consider(now, out);
}

void Pairwise::drain(double, Effects&) { draining_ = true; }

bool Pairwise::quiet() const {
  return std::none_of(ends_.begin(), ends_.end(), [](const End& e) {
    const bool asked = e.offered && e.backoff <= kUnheard;  // a yes may come
    return asked || e.open;
  });
}

std::vector<EdgeCount> Pairwise::edge_counts() const {
  std::vector<EdgeCount> counts;
  for (const End& e : ends_)
    counts.push_back({e.peer, e.exchanges, e.applied_at, e.in_graph});
  return counts;
}

// --- policy of a rank

double Pairwise::usual() const {
  if (durations_known_ == 0)  // ten time-outs of an edge that has learned nothing yet
    return options_.duration_s + 10 * (3 * options_.round_trip_s + options_.least_timeout_s);
  return *std::min_element(durations_, durations_ + std::min(durations_known_, 4));
}

double Pairwise::ask_again_at(double now) const {
  return now + (rate_ > 0 ? kAskAgain * interval() : 0);
}

double Pairwise::interval() const {
  return durations_known_ == 0 ? 1 / rate_ : std::max(1 / rate_, usual());
}

bool Pairwise::is_busy(double now) const {
  const double age = kSlow * usual();
  int busy = 0;
  for (const End& e : ends_)
    busy += e.open && !e.open->applied && now - e.opened_at < age;
  return busy >= options_.exchanges_at_once;
}

double Pairwise::busy_until(double now) const {
  const double age = kSlow * usual();
  double until = kNever;
  for (const End& e : ends_)
    if (e.open && now - e.opened_at < age) until = std::min(until, e.opened_at + age);
  return until;
}

int Pairwise::usable(double now) const {
  const double age = kSlow * usual();
  int count = 0;
  for (const End& e : ends_) {
    count += e.in_graph && !(e.offered && e.lapsed) && !(e.open && now - e.opened_at >= age);
  }
  return count;
}

double Pairwise::patience_end() const {
  return std::max(due_, last_open_) + kPatience * interval();
}

bool Pairwise::is_fresh(double now, const End& e) const {
  if (options_.allow_repeats || degree_ <= 1 || now > patience_end()) return true;
  const int others = usable(now) - 1;
  const auto keep = static_cast<size_t>(std::max(0, std::min(std::max(1, degree_ / 2), others)));
  const auto last = last_partners_.end();
  return std::find(last - static_cast<long>(std::min(keep, last_partners_.size())), last, e.peer) ==
         last;
}

DeclineReason Pairwise::refusal(double now, const End& e) {
  const auto open_ends =
      std::count_if(ends_.begin(), ends_.end(), [](const End& o) { return o.open != nullptr; });
  if (static_cast<size_t>(open_ends) >= kOpenAtMost) return DeclineReason::no_buffer;
  if (draining_ || is_busy(now)) return DeclineReason::busy;
  if (options_.pairing == Pairing::poisson) return DeclineReason::none;
  if (due_ - now > 1 / rate_) return DeclineReason::not_yet;
  if (!is_fresh(now, e)) return DeclineReason::repeat;
  if (now < due_) {  // an early answer: a neighbour that has waited longer goes first
    for (const End& o : ends_) {
      if (o.caller && &o != &e && o.opened_at < e.opened_at && o.idle() && o.in_graph &&
          is_fresh(now, o))
        return DeclineReason::older_caller;
    }
  }
  return DeclineReason::none;
}

void Pairwise::consider(double now, Effects& out) {
  if (!started_ || draining_ || rate_ <= 0) return;
  const bool rings = options_.pairing == Pairing::poisson;
  if (!rings && now < due_) {
    out.arms.push_back({kWake, due_});
    return;
  }
  if (offered_to_ >= 0) return;
  if (is_busy(now)) {
    const double until = busy_until(now);
    if (until < kNever) out.arms.push_back({kWake, until + kInstant});
    return;
  }
  size_t open_ends = 0;
  double next = kNever;
  std::vector<End*> candidates;
  for (End& e : ends_) {
    open_ends += e.open != nullptr;
    if (!e.idle() || !e.in_graph) continue;
    if (rings && e.backlog == 0 && !e.caller) continue;
    if (!rings && !is_fresh(now, e)) {
      next = std::min(next, patience_end() + kInstant);
    } else if (e.not_before > now) {
      next = std::min(next, e.not_before);
    } else {
      candidates.push_back(&e);
    }
  }
  if (candidates.empty() || open_ends >= kOpenAtMost) {
    if (next < kNever) out.arms.push_back({kWake, next});
    return;
  }
  // At random among the oldest quarter: a strict order would turn a hub into a chain.
  const size_t oldest = std::min(candidates.size(), static_cast<size_t>((degree_ + 3) / 4));
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<long>(oldest),
                    candidates.end(), [](const End* a, const End* b) {
                      return a->opened_at != b->opened_at ? a->opened_at < b->opened_at
                                                          : a->peer < b->peer;
                    });
  offer(now, *candidates[oldest == 1 ? 0 : random_.below(static_cast<uint32_t>(oldest))], out);
}

// --- timers

void Pairwise::wind_up(double from, End& e, Effects& out) {
  e.rings_at = from + random_.exponential() / e.wanted_rate;
  out.arms.push_back({2 + 2 * index_of(e), e.rings_at});
}

void Pairwise::ring(double now, End& e, Effects& out) {
  if (!e.in_graph || draining_) return;
  wind_up(e.rings_at, e, out);
  ++e.backlog;
  consider(now, out);
}

double Pairwise::timeout(const End& e) const {
  return std::min(e.rtt + 4 * e.rtt_var, options_.most_timeout_s);
}

double Pairwise::least_timeout() const {
  double least = kNever;
  for (const End& e : ends_)
    least = std::min(least, timeout(e));
  return least;
}

void Pairwise::timer(double now, int id, Effects& out) {
  if (id == kWake) return consider(now, out);
  End& e = ends_[static_cast<size_t>((id - 1) / 2)];
  if (id % 2 == 0) return ring(now, e, out);
  repeat(now, e, out);
}

void Pairwise::repeat(double now, End& e, Effects& out) {
  if (e.idle() || (e.open && e.open->taking)) return;
  if (e.offered && !e.lapsed) {  // the rank is free to offer elsewhere
    e.lapsed = true;
    release(now, e);
    consider(now, out);
  }
  e.backoff = std::min(2 * e.backoff, 1 << 20);
  if (e.backoff == kSuspicious) out.suspects.push_back(e.peer);
  double wait = timeout(e) * e.backoff + options_.least_timeout_s;
  if (e.offered) {
    send(e, FrameKind::offer, e.done + 1, out);
  } else {
    send(e, e.open->acked ? FrameKind::accept : FrameKind::ask, e.done + 1, out);
    if (!e.open->applied) wait += e.duration;
  }
  const double cap = std::max({rate_ > 0 ? interval() : 0, timeout(e), options_.least_timeout_s});
  arm_repeat(e, now + std::min(wait, cap), out);
}

void Pairwise::learn_round_trip(double now, End& e) {
  if (e.backoff != 1) return;  // only from first transmissions
  const double sample = now - e.offered_at;
  e.rtt_var += (std::abs(sample - e.rtt) - e.rtt_var) / 4;
  e.rtt += (sample - e.rtt) / 8;
}

}  // namespace grapevine
