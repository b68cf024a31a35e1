// Counts: the counters of a run's conversations, for reports. Values.
#pragma once
#include <cstdint>
#include <limits>

namespace grapevine {

constexpr double kNever = std::numeric_limits<double>::infinity();  // a time that does not come

/// The counters of a conversation, from its start.
struct Counts {
  uint64_t opened = 0;         // exchanges entered
  uint64_t applied = 0;        // jumps applied (rounds: finished)
  uint64_t declined = 0;       // offers of others answered with no
  uint64_t repeated = 0;       // frames that brought nothing new
  uint64_t broken_before = 0;  // the peer died, the exchange was dropped
  uint64_t broken_after = 0;   // the peer died after we had applied it: its half may be missing
  uint64_t lost = 0;           // messages of rounds that went on without them
  uint64_t protocol_errors = 0;
  uint64_t clipped = 0;     // of those applied: scaled, what came was far (actors/guard)
  uint64_t not_finite = 0;  // of those applied: what came is not finite, and was not used
  uint64_t renewed = 0;     // ends that began anew because the numbers of the two could never meet
  double longest_offer_s = 0;  // an unanswered offer of ours held us this long
  double waited_s = 0;         // time between due and open, summed

  Counts& operator+=(const Counts&);  // sums; the longest offer is the longest
};

struct EdgeCount {  // exchanges with a neighbour, for measured rates and for reports
  int peer = 0;
  uint64_t applied = 0;
  double applied_at = -1;                // the last one; negative: none yet
  bool in_graph = true;                  // false: a neighbour of an earlier graph
  uint64_t clipped = 0, not_finite = 0;  // as in Counts
};

}  // namespace grapevine
