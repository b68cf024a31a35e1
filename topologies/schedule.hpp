// The one-peer exponential schedule: the peer of a rank in each round of stochastic gradient push.
//
// With d = ceil(log2 n), in round r
//
//   rank i sends to i + 2^(r mod d)  and receives from  i - 2^(r mod d)          (modulo n)
//
// So every rank sends one message and receives one. If n is a power of two, d rounds with weights
// of one half average exactly; any other n needs push-sum weights. Assran, Loizou, Ballas, Rabbat,
// "Stochastic Gradient Push", ICML 2019, arXiv:1811.10792.
//
// The published code of RelaySum (Vogels et al., NeurIPS 2021) takes S rounds per step and has
// exponent i (S + j) instead of i S + j in round j of step i. With 16 ranks and S = 2, the hops are
// 1, 1, 4, 8, 1, 4, 4, 2 instead of 1, 2, 4, 8, so averaging takes twice as many steps.
#pragma once
#include <cstdint>

namespace grapevine {

enum class PeerSchedule { paper, reference };

struct OnePeer {
  int to = 0, from = 0;
};

/// ceil(log2 ranks): the period of the paper's schedule in rounds. At least two ranks.
int exponential_rounds(int ranks);

/// The partner of `rank` in a perfect matching, drawn for each round. With an odd number of
/// ranks, one rank gets itself. A pure function.
int matched(int rank, int ranks, uint64_t seed, uint64_t round);

/// Each rank waits for its sender in each round. Returns how many rounds another rank may be behind
/// such a rank: after this number of rounds, every rank's data has reached all others. At least two
/// ranks.
int most_behind(int ranks, PeerSchedule);

/// The peers of `rank` in averaging round `round` (0 <= round < rounds_per_step) of step `step`,
/// both counted from 0. A pure function; at least two ranks.
OnePeer one_peer(int rank, int ranks, int64_t step, int round = 0, int rounds_per_step = 1,
                 PeerSchedule schedule = PeerSchedule::paper);

}  // namespace grapevine
