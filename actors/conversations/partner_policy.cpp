#include "actors/conversations/partner_policy.hpp"

#include <algorithm>

namespace grapevine {

namespace {

// Asks again a nanosecond after a limit, the resolution of clocks.
constexpr double kInstant = 1e-9;
constexpr double kPatience = 2;  // intervals after which a partner may repeat
constexpr double kAskAgain = 4;  // intervals after a declined offer
// Usual durations after which an exchange no longer counts as busy.
constexpr double kSlow = 2;
constexpr long kOpenAtMost = 4;       // snapshots held by one rank
constexpr double kClockJitter = 0.1;  // of the rank's own clock
constexpr double kCaughtUp = 3;       // intervals of delay that are caught up
constexpr double kAtHand = 4;         // times faster than most partners

long open_count(const Partners& partners) {
  return std::count_if(partners.begin(), partners.end(),
                       [](const Partner& p) { return p.exchange.is_open(); });
}

// Whether a partner that this rank never met does not answer. There may be many of these.
bool strangers_are_silent(const Partners& partners) {
  return std::any_of(partners.begin(), partners.end(),
                     [](const Partner& p) { return p.in_graph && !p.met && p.exchange.silent(); });
}

}  // namespace

double usual_of(std::span<double> times) {
  const auto middle = times.begin() + static_cast<long>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  const double least = *std::min_element(times.begin(), middle + 1);
  return kAtHand * least < *middle ? *middle : least;
}

PartnerPolicy::PartnerPolicy(const PairwiseOptions& options)
    : pairing_(options.pairing),
      allow_repeats_(options.allow_repeats),
      exchanges_at_once_(options.exchanges_at_once),
      random_(options.seed, static_cast<uint32_t>(options.rank), Purpose::gossip_timer),
      // Includes ten time-outs of an edge that has measured nothing yet.
      durations_{options.duration_s + 10 * (3 * options.round_trip_s + options.least_timeout_s)} {}

void PartnerPolicy::learn(double now, double rate, int degree) {
  rate_ = rate;
  degree_ = degree;
  if (started_ || rate_ <= 0) return;
  started_ = true;
  due_ = last_open_ = now + random_.uniform() / rate_;
}

// --- durations

double PartnerPolicy::usual() const {
  double last[4];
  const auto count = std::clamp<size_t>(durations_known_, 1, 4);
  std::copy_n(durations_, count, last);
  return usual_of({last, count});
}

double PartnerPolicy::interval() const {
  return durations_known_ == 0 ? 1 / rate_ : std::max(1 / rate_, usual());
}

double PartnerPolicy::repeat_cap() const { return rate_ > 0 ? interval() : 0; }

void PartnerPolicy::finished(double took_s) {
  durations_[durations_known_++ % 4] = took_s;
  if (durations_known_ == 8) durations_known_ = 4;
}

// --- the partners

bool PartnerPolicy::is_busy(double now, const Partners& partners) const {
  const double age = kSlow * usual();
  int busy = 0;
  for (const Partner& p : partners) {
    const PairExchange& x = p.exchange;
    busy += x.is_open() && !x.applied() && now - x.opened_at() < age;
  }
  return busy >= exchanges_at_once_;
}

double PartnerPolicy::busy_until(double now, const Partners& partners) const {
  const double age = kSlow * usual();
  double until = kNever;
  for (const Partner& p : partners) {
    const PairExchange& x = p.exchange;
    if (x.is_open() && now - x.opened_at() < age) until = std::min(until, x.opened_at() + age);
  }
  return until;
}

// The number of last partners that may not repeat while others can be used. While a partner that
// this rank never met is silent, only those that it has met count.
int PartnerPolicy::repeats_kept(double now, const Partners& partners) const {
  const double age = kSlow * usual();
  int met = 0, strangers = 0;
  for (const Partner& p : partners) {
    if (!p.in_graph) continue;
    const PairExchange& x = p.exchange;
    const bool lapsed = x.offered() && x.lapsed();
    const bool stuck = x.is_open() && now - x.opened_at() >= age;
    if (!lapsed && !stuck) ++(p.met ? met : strangers);
  }
  const bool silent = strangers_are_silent(partners);
  const int usable = silent ? met : met + strangers;
  const int most = std::max(1, (silent ? usable : degree_) / 2);
  return std::max(0, std::min(most, usable - 1));
}

double PartnerPolicy::patience_end() const {
  return std::max(due_, last_open_) + kPatience * interval();
}

bool PartnerPolicy::is_fresh(double now, const Partners& partners, const Partner& p) const {
  if (allow_repeats_ || degree_ <= 1 || now > patience_end()) return true;
  const auto keep = static_cast<size_t>(repeats_kept(now, partners));
  const auto last = last_partners_.end();
  return std::find(last - static_cast<long>(std::min(keep, last_partners_.size())), last,
                   p.exchange.peer()) == last;
}

// --- decisions

DeclineReason PartnerPolicy::refusal(double now, const Partners& partners,
                                     const Partner& from) const {
  if (open_count(partners) >= kOpenAtMost) return DeclineReason::no_buffer;
  if (draining_ || is_busy(now, partners)) return DeclineReason::busy;
  if (rings()) return DeclineReason::none;
  if (due_ - now > 1 / rate_) return DeclineReason::not_yet;
  if (!is_fresh(now, partners, from)) return DeclineReason::repeat;
  if (now < due_) {  // an early answer: a neighbour that has waited longer goes first
    for (const Partner& o : partners) {
      const bool waits = o.caller && &o != &from && o.exchange.idle() && o.in_graph &&
                         o.exchange.opened_at() < from.exchange.opened_at();
      if (waits && is_fresh(now, partners, o)) return DeclineReason::older_caller;
    }
  }
  return DeclineReason::none;
}

PartnerPolicy::Choice PartnerPolicy::choose(double now, const Partners& partners) {
  if (!started_ || draining_ || rate_ <= 0) return {};
  if (!rings() && now < due_) return {-1, due_};
  if (offered_to_ >= 0) return {};
  if (is_busy(now, partners)) return {-1, busy_until(now, partners) + kInstant};
  double again_at = kNever;
  std::vector<int> candidates;
  for (size_t k = 0; k < partners.size(); ++k) {
    const Partner& p = partners[k];
    if (!p.exchange.idle() || !p.in_graph) continue;
    if (rings() && p.backlog == 0 && !p.caller) continue;
    if (!rings() && !is_fresh(now, partners, p)) {
      again_at = std::min(again_at, patience_end() + kInstant);
    } else if (p.not_before > now) {
      again_at = std::min(again_at, p.not_before);
    } else {
      candidates.push_back(static_cast<int>(k));
    }
  }
  if (candidates.empty() || open_count(partners) >= kOpenAtMost) return {-1, again_at};
  const auto met = [&](int k) { return partners[static_cast<size_t>(k)].met; };
  if (unanswered_ && std::any_of(candidates.begin(), candidates.end(), met) &&
      strangers_are_silent(partners))
    std::erase_if(candidates, [&](int k) { return !met(k); });
  // A random one of the oldest quarter: with a strict order, exchanges at a hub would form a chain.
  const size_t oldest = std::min(candidates.size(), static_cast<size_t>((degree_ + 3) / 4));
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<long>(oldest),
                    candidates.end(), [&](int a, int b) {
                      const PairExchange& x = partners[static_cast<size_t>(a)].exchange;
                      const PairExchange& y = partners[static_cast<size_t>(b)].exchange;
                      return x.opened_at() != y.opened_at() ? x.opened_at() < y.opened_at()
                                                            : x.peer() < y.peer();
                    });
  return {candidates[oldest == 1 ? 0 : random_.below(static_cast<uint32_t>(oldest))]};
}

// --- events

double PartnerPolicy::release(double now, const Partner& p) {
  if (offered_to_ != p.exchange.peer()) return 0;
  offered_to_ = -1;
  return now - p.exchange.offered_at();
}

double PartnerPolicy::opened(double now, Partners& partners, Partner& p) {
  p.caller = false;
  p.met = true;
  unanswered_ = false;
  if (p.backlog > 0) --p.backlog;
  if (!rings()) {
    last_partners_.push_back(p.exchange.peer());
    if (last_partners_.size() > std::max<size_t>(1, partners.size() / 2))
      last_partners_.erase(last_partners_.begin());
  }
  const double waited_s = std::max(0.0, now - std::max(due_, last_open_));
  last_open_ = now;
  if (rate_ > 0) {
    const double jitter = 1 + kClockJitter * (2 * random_.uniform() - 1);
    due_ = std::max(due_, now - kCaughtUp / rate_) + jitter / rate_;
  }
  for (Partner& other : partners)
    other.not_before = std::min(other.not_before, now);
  return waited_s;
}

void PartnerPolicy::declined(double now, Partner& p) const {
  p.not_before = now + (rate_ > 0 ? kAskAgain * interval() : 0);
}

void PartnerPolicy::refused(double now, Partner& p) const {
  p.caller = true;
  p.not_before = now;
}

void PartnerPolicy::wind_up(double from, Partner& p) {
  p.rings_at = from + random_.exponential() / p.wanted_rate;
}

bool PartnerPolicy::ring(Partner& p) {
  if (!p.in_graph || draining_) return false;
  ++p.backlog;
  wind_up(p.rings_at, p);
  return true;
}

}  // namespace grapevine
