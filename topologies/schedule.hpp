// The one-peer exponential schedule: whom a rank sends to in a round of stochastic gradient push.
//
// With d = ceil(log2 n), in round r
//
//   rank i sends to i + 2^(r mod d)  and receives from  i - 2^(r mod d)          (modulo n)
//
// so every rank sends one message and receives one, and d rounds of halves and halves average
// exactly when n is a power of two; for any other n push-sum weights are needed. Assran, Loizou,
// Ballas, Rabbat, "Stochastic Gradient Push", ICML 2019, arXiv:1811.10792.
//
// The published code of RelaySum (Vogels et al., NeurIPS 2021) takes S rounds per step and has
// exponent i (S + j) in place of i S + j in round j of step i: 16 ranks and S = 2 hop by 1, 1, 4,
// 8, 1, 4, 4, 2 in place of 1, 2, 4, 8, and need twice as many steps to average.
#pragma once
#include <cstdint>

namespace grapevine {

enum class PeerSchedule { paper, reference };

struct OnePeer {
  int to = 0, from = 0;
};

/// ceil(log2 ranks): rounds until the paper's schedule begins again. Two ranks at least.
int exponential_rounds(int ranks);

/// A perfect matching of all ranks, which is drawn for each round: the partner of `rank` in it, or
/// itself, which of an odd number one rank is. A pure function.
int matched(int rank, int ranks, uint64_t seed, uint64_t round);

/// How many rounds another rank may be behind a rank that waits for its sender in each round: after
/// this number of rounds the data of each rank has reached all others. At least two ranks.
int most_behind(int ranks, PeerSchedule);

/// The peers of `rank` in averaging round `round` (0 <= round < rounds_per_step) of step `step`,
/// both counted from 0. A pure function; two ranks at least.
OnePeer one_peer(int rank, int ranks, int64_t step, int round = 0, int rounds_per_step = 1,
                 PeerSchedule schedule = PeerSchedule::paper);

}  // namespace grapevine
