#include "topologies/schedule.hpp"

#include <bit>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/base/random.hpp"

namespace grapevine {

int exponential_rounds(int ranks) {
  GV_CHECK(ranks >= 2);
  return std::bit_width(static_cast<unsigned>(ranks) - 1);
}

int matched(int rank, int ranks, uint64_t seed, uint64_t round) {
  GV_CHECK(rank >= 0);
  GV_CHECK(rank < ranks);
  std::vector<int> order(static_cast<size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  Random random(seed, 0, Purpose::partner, round);
  for (size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[random.below(static_cast<uint32_t>(left))]);
  for (size_t k = 0; k + 1 < order.size(); k += 2) {
    if (order[k] == rank) return order[k + 1];
    if (order[k + 1] == rank) return order[k];
  }
  return rank;
}

int most_behind(int ranks, PeerSchedule schedule) {
  constexpr int kReference = 32;  // a bound, because its hops repeat
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
