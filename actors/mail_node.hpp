// Mail to the actors that a process has one of: its topology manager and its node.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "actors/mail.hpp"
#include "actors/run/samples.hpp"

namespace grapevine {

// To a topology manager.
struct Reconfigure {
  std::string topology;
};  // answered by a line that describes the new epoch, or an error
struct RankDown {
  int rank = 0;
};
struct RankReady {
  int rank = 0;
};                // it has its state: a new epoch may begin
struct Solved;    // spectrum and constants of a graph, from a compute thread
struct Renew {};  // measure rates, and solve again where they have moved

// To a node.
struct NodeReport {
  std::vector<WorkerReport> workers;
  std::vector<CommunicatorReport> communicators;
  std::array<uint64_t, kDeclineReasons> declines{};  // of offers, by reason, since the start
};                                                   // answers Report
struct Finished {
  int rank = 0;
};  // a worker has done its share
struct Diverged {
  int rank = 0;
  uint64_t gradient = 0;
  double loss = 0;
};
struct KillRank {
  int rank = 0;
};
struct RestartRank {
  int rank = 0;
};
struct Finish {};  // end the run: drain, collect, report
struct Begin {
  int first_rank = 0;               // the ranks here count from it
  std::vector<Donation> donations;  // by place; none: at the objective's initial point
};

}  // namespace grapevine
