// Plan: which ranks are slow, fail or come back, and what happens to their links. One plan, both
// clocks. A value.
//
// A list of faults, each {kind, ranks or links, at, until, and the kind's own key}:
//   slow         ranks compute `factor` times slower
//   pause        ranks stand still from at to until, with everything that is sent to them
//   kill         ranks end at `at` and stay away; neighbours learn of it
//   restart      ranks come back at `at` as new incarnations, with the state of a neighbour (alive
//   ones are killed first) reconfigure  the graph becomes `topology` at `at` loss, delay, cut,
//   one_way, repeat, corrupt, bandwidth   act on links (see transport/link_model.hpp): between
//   processes and on the virtual clock
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
  std::string where = "plan";     // it was said: FILE:LINE

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
  /// The product of the factors of all `slow` faults that hold for the rank now.
  double slowness(int rank, double now) const;
};

/// Every rank named is one of 0..ranks-1, times do not run backwards, factors and probabilities are
/// possible, every topology can be made; with the wall clock, no link faults. One line otherwise,
/// which begins with where the plan says so.
Status check(const Plan&, int ranks, bool wall_clock);

/// What can have no effect, a line each: what begins after `until_s` (0: there is no end), what
/// never happens, and, unless `topology` is empty, links of ranks that are neighbours neither there
/// nor in any later graph of the plan. REQUIRES: it was checked.
std::vector<std::string> without_effect(const Plan&, const std::string& topology, int ranks,
                                        double until_s);

}  // namespace grapevine
