// Counts: the counters of a run's conversations, for reports. Values.
#pragma once
#include <cstdint>
#include <limits>

namespace grapevine {

constexpr double kNever = std::numeric_limits<double>::infinity();  // a time that never comes

/// The counters of a conversation since its start.
struct Counts {
  uint64_t opened = 0;         // exchanges entered
  uint64_t applied = 0;        // jumps applied (rounds: finished)
  uint64_t declined = 0;       // offers of others that were declined
  uint64_t repeated = 0;       // frames with nothing new
  uint64_t broken_before = 0;  // the peer died and the exchange was dropped
  uint64_t broken_after = 0;   // the peer died after this end applied it: its half may be missing
  uint64_t lost = 0;           // messages of rounds that continued without them
  uint64_t protocol_errors = 0;
  uint64_t clipped = 0;        // of those applied: scaled, because the data was far (actors/guard)
  uint64_t not_finite = 0;     // of those applied: not used, because the data was not finite
  uint64_t renewed = 0;        // ends that started again because the two numbers could never agree
  double longest_offer_s = 0;  // the longest time that an unanswered offer held this rank
  double waited_s = 0;         // the sum of the times between due and open

  Counts& operator+=(const Counts&);  // sums; the longest offer is the longest
};

struct EdgeCount {  // exchanges with a neighbour, for measured rates and for reports
  int peer = 0;
  uint64_t applied = 0;
  double applied_at = -1;                // the last one; negative: none
  bool in_graph = true;                  // false: a neighbour of an earlier graph
  uint64_t clipped = 0, not_finite = 0;  // as in Counts
};

}  // namespace grapevine
