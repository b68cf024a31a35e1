#include "topologies/schedule.hpp"

#include <bit>

#include "kernels/base/check.hpp"

namespace grapevine {

int exponential_rounds(int ranks) {
  GV_CHECK(ranks >= 2);
  return std::bit_width(static_cast<unsigned>(ranks) - 1);
}

int most_behind(int ranks, PeerSchedule schedule) {
  constexpr int kReference = 32;  // whose hops repeat
  return schedule == PeerSchedule::reference ? kReference : exponential_rounds(ranks);
}

OnePeer one_peer(int rank, int ranks, int64_t step, int round, int rounds_per_step,
                 PeerSchedule schedule) {
  GV_CHECK(rank >= 0);
  GV_CHECK(rank < ranks);
  GV_CHECK(step >= 0);
  GV_CHECK(round >= 0);
  GV_CHECK(round < rounds_per_step);
  const int64_t period = exponential_rounds(ranks);
  const int64_t i = step % period, s = rounds_per_step % period, j = round;
  const int64_t exponent = schedule == PeerSchedule::paper ? i * s + j : i * (s + j);
  const int64_t hop = int64_t{1} << exponent % period;  // below ranks
  return {static_cast<int>((rank + hop) % ranks), static_cast<int>((rank - hop + ranks) % ranks)};
}

}  // namespace grapevine
