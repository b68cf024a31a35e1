// Mail to the actors of which a process has one: its topology manager, its node, and the actor that
// owns membership. mail.hpp has the messages that programs around a run may send them.
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

// To whoever owns membership, and so begins epochs.
struct ShareDone {};  // the ranks here have done their share
struct OwnWork {
  uint64_t taken = 0;  // gradients of the ranks here, since this process began
  double per_second = 0;
};  // to be told to the others
struct Suspected {
  int rank = 0;
};  // it does not answer
struct RankLost {
  int rank = 0;
};  // of those here
struct RankReturns {
  int rank = 0;
};  // answered by the rank here whose state it shall have: a neighbour; itself where there is none
struct RankReady {
  int rank = 0;
};  // it has its state: an epoch with it may begin

// To a topology manager. The actors of the ranks of this process, by rising rank; replaces the
// earlier list.
struct RankActors {
  int rank = 0;
  CommunicatorActor communicator;
  WorkerActor worker;  // may be empty
};
using RanksHere = std::shared_ptr<const std::vector<RankActors>>;
struct Solved;  // spectrum and constants of a graph, from a compute thread
using SolvedPtr = std::shared_ptr<const Solved>;
struct Renew {};  // measure rates, and solve again where they have moved
struct TellRoster {
  uint64_t epoch = 0;
};  // the ranks here shall know this epoch, even if its spectrum is not there yet

// To a node.
struct NodeReport {
  std::vector<WorkerReport> workers;
  std::vector<CommunicatorReport> communicators;
  Counts carried;                                    // of ranks here that have had other numbers
  std::array<uint64_t, kDeclineReasons> declines{};  // of offers, by reason, since the start
  DurationCounts round_trips;                        // of offers, likewise
  std::vector<EdgeDurations> edge_round_trips;       // of them, by edge
  double learning_rate = 0;                          // of the newest gradient; NaN: not known
  std::vector<RankCost> costs;                       // of the time of the ranks, so far
};                                                   // answers Report
/// The work that the members of the run have reported (actors/rank/work_pool.hpp).
struct WorkHeard {
  uint64_t before = 0;  // of this process, in earlier lives
  std::shared_ptr<const std::vector<MemberWork>> others;
};
struct Begin {
  int first_rank = 0;                // the ranks here count from it
  std::vector<RankStatePtr> states;  // by place; none: at the objective's initial point
};

}  // namespace grapevine
