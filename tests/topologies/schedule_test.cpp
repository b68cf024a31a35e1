// The one-peer exponential schedule, the paper's and the published code's.
#include "topologies/schedule.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/topologies/tools.hpp"

using namespace grapevine;

namespace {

constexpr int kRoundsPerStep = 2;

/// The shares of every rank in every rank after the steps: each round keeps half and sends half.
Eigen::MatrixXd shares_after(int ranks, int steps, PeerSchedule schedule) {
  Eigen::MatrixXd shares = Eigen::MatrixXd::Identity(ranks, ranks);
  for (int step = 0; step < steps; ++step) {
    for (int round = 0; round < kRoundsPerStep; ++round) {
      Eigen::MatrixXd next = shares / 2;
      for (int rank = 0; rank < ranks; ++rank) {
        const int from = one_peer(rank, ranks, step, round, kRoundsPerStep, schedule).from;
        next.row(rank) += shares.row(from) / 2;
      }
      shares = next;
    }
  }
  return shares;
}

bool all_equal(const Eigen::MatrixXd& shares) {
  return (shares.array() - 1.0 / static_cast<double>(shares.rows())).abs().maxCoeff() == 0;
}

std::vector<int> hops(PeerSchedule schedule, int steps) {
  std::vector<int> result;
  for (int step = 0; step < steps; ++step) {
    for (int round = 0; round < kRoundsPerStep; ++round) {
      result.push_back(one_peer(0, 16, step, round, kRoundsPerStep, schedule).to);
    }
  }
  return result;
}

}  // namespace

TEST_CASE("16 ranks hop by 1 2 4 8 in turn, in the published code by 1 1 4 8 1 4 4 2") {
  CHECK(hops(PeerSchedule::paper, 4) == std::vector{1, 2, 4, 8, 1, 2, 4, 8});
  CHECK(hops(PeerSchedule::reference, 4) == std::vector{1, 1, 4, 8, 1, 4, 4, 2});
}

TEST_CASE("log2 n rounds average a power of two exactly, one round less does not") {
  for (const int n : {4, 16, 64}) {
    const int steps = exponential_rounds(n) / kRoundsPerStep;
    CHECK(all_equal(shares_after(n, steps, PeerSchedule::paper)));
    CHECK_FALSE(all_equal(shares_after(n, steps - 1, PeerSchedule::paper)));
  }
}

TEST_CASE("the published code needs four steps where the paper's schedule needs two") {
  CHECK(all_equal(shares_after(16, 2, PeerSchedule::paper)));
  CHECK_FALSE(all_equal(shares_after(16, 2, PeerSchedule::reference)));
  CHECK_FALSE(all_equal(shares_after(16, 3, PeerSchedule::reference)));
  CHECK(all_equal(shares_after(16, 4, PeerSchedule::reference)));
}

TEST_CASE("whoever is sent to receives from the sender, and nobody sends to itself, for every n") {
  for (int n = 2; n < 70; ++n) {
    for (const PeerSchedule schedule : {PeerSchedule::paper, PeerSchedule::reference}) {
      for (int step = 0; step < 9; ++step) {
        for (int rank = 0; rank < n; ++rank) {
          const OnePeer peer = one_peer(rank, n, step, step % 3, 3, schedule);
          REQUIRE(peer.to != rank);
          REQUIRE(one_peer(peer.to, n, step, step % 3, 3, schedule).from == rank);
        }
      }
    }
  }
}

TEST_CASE("the schedule repeats after the ceiling of log2 n rounds and spreads to every rank") {
  for (const auto& [n, rounds] : {std::pair{2, 1}, {3, 2}, {4, 2}, {5, 3}, {16, 4}, {17, 5}}) {
    CHECK(exponential_rounds(n) == rounds);
    std::vector<char> reached(static_cast<size_t>(n), 0);
    reached[0] = 1;
    for (int round = 0; round < rounds; ++round) {
      CHECK(one_peer(0, n, round).to == one_peer(0, n, round + 7 * rounds).to);
      std::vector<char> next = reached;
      for (int rank = 0; rank < n; ++rank) {
        next[static_cast<size_t>(rank)] |=
            reached[static_cast<size_t>(one_peer(rank, n, round).from)];
      }
      reached = next;
    }
    CHECK(std::ranges::count(reached, 1) == n);
  }
}

TEST_CASE("a step that no run reaches is as good as its remainder") {
  const int64_t far = 9'000'000'000'000'000'000;  // a multiple of the period, 5
  for (const PeerSchedule schedule : {PeerSchedule::paper, PeerSchedule::reference}) {
    for (int step = 0; step < 4; ++step) {
      CHECK(one_peer(3, 17, far + step, 1, 2, schedule).to ==
            one_peer(3, 17, step, 1, 2, schedule).to);
    }
  }
}
