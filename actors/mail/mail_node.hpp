// Mail to the actors of which a process has one: its topology manager, its node, and the owner of
// the membership. mail.hpp has the messages that programs may send to them.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "actors/mail/mail_state.hpp"
#include "actors/settings/histogram.hpp"
#include "actors/settings/member_work.hpp"
#include "actors/settings/samples.hpp"

namespace grapevine {

// To the owner of the membership, which begins epochs.
struct ShareDone {};  // the ranks here have taken their gradients
struct OwnWork {
  uint64_t taken = 0;  // gradients of the ranks here, since this process began
  double per_second = 0;
  double counted_s = 0;  // of the run's clock
};  // to be reported to the other nodes
struct Suspected {
  int rank = 0;
};  // it does not answer
struct RankLost {
  int rank = 0;
};  // of those here
struct RankReturns {
  int rank = 0;
};  // answered with the rank whose state it copies: a neighbour, or itself if it has none
struct RankReady {
  int rank = 0;
};  // it has its state, and an epoch with it may begin

// To a topology manager: the actors of the ranks of this process, by rising rank. Replaces the
// earlier list.
struct RankActors {
  int rank = 0;
  CommunicatorActor communicator;
  WorkerActor worker;  // may be empty
};
using RanksHere = std::shared_ptr<const std::vector<RankActors>>;
struct Solved;  // spectrum and constants of a graph, from a compute thread
using SolvedPtr = std::shared_ptr<const Solved>;
struct Renew {};  // measure rates, and solve again if they have changed
struct TellRoster {
  uint64_t epoch = 0;
};  // send this epoch to the ranks here, even if its spectrum is not computed yet

// To a node.
struct NodeReport {
  std::vector<WorkerReport> workers;
  std::vector<CommunicatorReport> communicators;
  Counts carried;                                    // of ranks here under earlier numbers
  std::array<uint64_t, kDeclineReasons> declines{};  // of offers, by reason, since the start
  DurationCounts round_trips;                        // of offers, likewise
  std::vector<EdgeDurations> edge_round_trips;       // of them, by edge
  double learning_rate = 0;                          // of the newest gradient; NaN: unknown
  std::vector<RankCost> costs;                       // of the ranks so far
};                                                   // answers Report
/// Ends a rank here, or brings it back (a living one is ended first).
struct ChangeRank {
  int rank = 0;
  bool returns = false;
};  // answered with a line about the rank, or an error
/// The work that the members of the run have reported (actors/rank/work_pool.hpp).
struct WorkHeard {
  uint64_t self = 0;    // the id of this process
  uint64_t before = 0;  // its work in earlier lives
  std::shared_ptr<const std::vector<MemberWork>> others;
};
struct Begin {
  int first_rank = 0;                // of the first rank here
  std::vector<RankStatePtr> states;  // by place; null: the objective's initial point
};

}  // namespace grapevine
