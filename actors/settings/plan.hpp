// Plan: which ranks are slow, fail or return, and the faults of their links. One plan serves both
// clocks. A value.
//
// A list of faults, each {kind, ranks or links, at, until, and the kind's own key}:
//   slow         ranks compute `factor` times slower
//   pause        ranks stop from `at` to `until`; messages to them wait
//   kill         ranks end at `at` and do not return; their neighbours learn of it
//   restart      ranks return at `at` as new incarnations with the state of a neighbour (live ones
//                are killed first)
//   reconfigure  the graph becomes `topology` at `at`
//   loss, delay, cut, one_way, repeat, corrupt, bandwidth
//   act on links (transport/link_model.hpp), between processes and on the virtual clock
#pragma once
#include <string>
#include <vector>

#include "actors/conversations/counts.hpp"
#include "actors/transport/link_model.hpp"
#include "kernels/base/result.hpp"

namespace grapevine {

enum class RankFaultKind { slow, pause, kill, restart };

struct RankFault {
  RankFaultKind kind = RankFaultKind::slow;
  std::vector<int> ranks;         // empty: all
  double at = 0, until = kNever;  // seconds; slow and pause
  double factor = 1;              // slow
  std::string where = "plan";     // the place in the plan, FILE:LINE

  bool touches(int rank, double now) const {
    if (now < at || now >= until) return false;
    if (ranks.empty()) return true;
    for (const int r : ranks)
      if (r == rank) return true;
    return false;
  }
};

struct Reconfiguration {
  double at = 0;
  std::string topology;
  std::string where = "plan";
};

struct Plan {
  std::vector<RankFault> rank_faults;
  std::vector<LinkFault> link_faults;
  std::vector<Reconfiguration> reconfigurations;

  bool empty() const {
    return rank_faults.empty() && link_faults.empty() && reconfigurations.empty();
  }
  /// The product of the factors of all `slow` faults that now act on the rank.
  double slowness(int rank, double now) const;
};

/// Checks that every rank is one of 0..ranks-1, that no time ends before it begins, that factors
/// and probabilities are possible, and that every topology can be made; with the wall clock, that
/// there are no link faults. Otherwise returns one line that starts with the place in the plan.
Status check(const Plan&, int ranks, bool wall_clock);

/// Faults that can have no effect, one line each: those that start after `until_s` (0: there is no
/// end), those that never happen, and, unless `topology` is empty, links of ranks that are not
/// neighbours in it or in a later graph of the plan. REQUIRES: the plan was checked.
std::vector<std::string> without_effect(const Plan&, const std::string& topology, int ranks,
                                        double until_s);

}  // namespace grapevine
