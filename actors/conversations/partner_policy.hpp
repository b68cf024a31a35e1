// PartnerPolicy: when a rank offers an exchange, to which rank, and which offers it accepts. A rank
// has one exchange at a time, and waits for the answer to one offer at a time. pair_exchange.hpp
// has the exchange itself.
//
// Two pairings. `poisson`: each edge has a Poisson clock, kept by its lower rank: the process of
// Nabli, Belilovsky, Oyallon (A2CiD2, NeurIPS 2023). `free`: each rank has its own clock (1/w +- 10
// %, w the sum of its edges' wanted rates) and chooses a partner among its least recently used
// neighbours, never one of the last floor(d/2).
//
// Arithmetic on times and a stream of random numbers, without frames or effects. The caller owns
// the partners and never reorders them.
#pragma once
#include <span>
#include <vector>

#include "actors/conversations/pair_exchange.hpp"
#include "actors/conversations/pairing.hpp"
#include "kernels/base/random.hpp"

namespace grapevine {

struct PairwiseOptions {
  Pairing pairing = Pairing::free;
  int rank = 0;
  uint64_t seed = 1;
  double round_trip_s = 1e-3;  // expected before the first answer
  double duration_s = 1e-2;    // expected of an exchange, before the first
  double least_timeout_s = 1e-6;
  double most_timeout_s = kNever;  // an answer after a standstill says little about the next one
  // Controls for experiments, which the protocol forbids:
  bool allow_repeats = false;  // partners may repeat at once: the ranks split into pairs
  int exchanges_at_once = 1;   // with two at once the ranks diverge
};

/// A neighbour in the present graph or in an earlier one: this rank's end of the edge, and the
/// policy's data about it. A rank has many partners, and exchanges with few at a time.
struct Partner {
  PairExchange exchange;
  bool in_graph = true;
  bool met = false;      // in any exchange so far
  bool caller = false;   // its offer was declined here, and it waits
  uint32_t backlog = 0;  // poisson: rings not yet served
  double wanted_rate = 0;
  double not_before = 0, rings_at = kNever;
  uint32_t clipped = 0, not_finite = 0;  // exchanges
};
using Partners = std::vector<Partner>;

/// The usual duration of one rank's exchanges, or of its waits for an answer: the shortest time, so
/// that slow partners do not make the rank wait longer. If at least half of the partners take over
/// four times as long, the median is used. The shortest time then belongs to a very near neighbour
/// (in the same process, say); with it the rank would treat all other partners as slow, leave them
/// and exchange with many at once, which diverges. Reorders the times. REQUIRES: there are some.
double usual_of(std::span<double> times);

class PartnerPolicy {
 public:
  explicit PartnerPolicy(const PairwiseOptions&);

  bool rings() const { return pairing_ == Pairing::poisson; }  // partners have clocks

  /// The graph has changed. `rate`: the sum of the wanted rates of this rank's edges; `degree`:
  /// their number.
  void learn(double now, double rate, int degree);
  void drain() { draining_ = true; }

  /// The partner for an offer now (an index among the partners), or none and when to ask again
  /// (kNever: after the next event).
  struct Choice {
    int partner = -1;
    double again_at = kNever;
  };
  Choice choose(double now, const Partners&);

  /// Why an offer of this partner is refused; none: it is accepted.
  DeclineReason refusal(double now, const Partners&, const Partner&) const;

  // Events.
  void offered(const Partner& to) { offered_to_ = to.exchange.peer(); }
  /// The offer was answered, has lapsed or is void. Returns how long it held this rank; 0 if it did
  /// not.
  double release(double now, const Partner&);
  /// An offer was not answered in time. While a partner that this rank never met is silent, the
  /// next offer goes to one that it has met, if there is one. So partners that never answer cost
  /// one offer each, and no exchange.
  void unanswered() { unanswered_ = true; }
  /// Returns how long this rank had been due.
  double opened(double now, Partners&, Partner&);
  void finished(double took_s);
  void declined(double now, Partner&) const;
  void refused(double now, Partner&) const;  // an offer of this partner was refused here
  /// poisson: sets the partner's clock; call ring() at `rings_at`.
  void wind_up(double from, Partner&);
  bool ring(Partner&);  // false: the edge is not in the graph

  double interval() const;    // the real time between two exchanges of this rank
  double repeat_cap() const;  // between two repeats of a frame; 0: no limit

 private:
  double usual() const;  // of the last four durations; a guess at first
  bool is_busy(double now, const Partners&) const;
  double busy_until(double now, const Partners&) const;
  int repeats_kept(double now, const Partners&) const;
  bool is_fresh(double now, const Partners&, const Partner&) const;
  double patience_end() const;

  Pairing pairing_;
  bool allow_repeats_;
  bool started_ = false, draining_ = false;
  bool unanswered_ = false;  // the last offer, and no exchange has opened since
  uint8_t durations_known_ = 0;
  int exchanges_at_once_;
  Random random_;
  int degree_ = 0;
  int offered_to_ = -1;             // peer of this rank's unlapsed offer
  std::vector<int> last_partners_;  // free: the latest is last
  double rate_ = 0;                 // w: sum of the wanted rates of the edges in the graph
  double due_ = 0, last_open_ = 0;
  double durations_[4];  // the first one is a guess at first
};

}  // namespace grapevine
