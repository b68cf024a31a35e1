#include "actors/run/plan.hpp"

#include <fmt/core.h>

#include <cmath>

#include "topologies/topology.hpp"

namespace grapevine {

double Plan::slowness(int rank, double now) const {
  double factor = 1;
  for (const RankFault& fault : rank_faults)
    if (fault.kind == RankFaultKind::slow && fault.touches(rank, now)) factor *= fault.factor;
  return factor;
}

namespace {

Status check_rank(int rank, int ranks) {
  if (rank >= 0 && rank < ranks) return Done{};
  return user_error(fmt::format("plan: ranks names {}, accepted: 0 to {}", rank, ranks - 1));
}

Status check_times(double at, double until) {
  if (std::isfinite(at) && at >= 0 && until > at) return Done{};
  return user_error(fmt::format("plan: at = {}, until = {}, accepted: 0 <= at < until", at, until));
}

Status check_factor(const char* key, double value) {
  if (std::isfinite(value) && value > 0) return Done{};
  return user_error(fmt::format("plan: {} = {}, accepted: a number above 0", key, value));
}

Status check(const RankFault& fault, int ranks) {
  for (const int rank : fault.ranks)
    if (Status s = check_rank(rank, ranks); !s) return s;
  if (Status s = check_times(fault.at, fault.until); !s) return s;
  return check_factor("factor", fault.factor);
}

Status check(const LinkFault& fault, int ranks) {
  for (const int rank : fault.ranks)
    if (Status s = check_rank(rank, ranks); !s) return s;
  for (const auto& [i, j] : fault.links) {
    if (Status s = check_rank(i, ranks); !s) return s;
    if (Status s = check_rank(j, ranks); !s) return s;
  }
  if (Status s = check_times(fault.at, fault.until); !s) return s;
  if (!(fault.probability >= 0 && fault.probability <= 1)) {
    return user_error(fmt::format("plan: probability = {}, accepted: 0 to 1", fault.probability));
  }
  if (!(std::isfinite(fault.seconds) && fault.seconds >= 0)) {
    return user_error(fmt::format("plan: seconds = {}, accepted: 0 or more", fault.seconds));
  }
  if (fault.kind == LinkFaultKind::bandwidth) {
    if (Status s = check_factor("bytes_per_second", fault.bytes_per_second); !s) return s;
  }
  return check_factor("factor", fault.factor);
}

}  // namespace

Status check(const Plan& plan, int ranks, bool wall_clock) {
  if (wall_clock && !plan.link_faults.empty()) {
    return user_error(
        "plan: link faults (loss, delay, cut, one_way, repeat, corrupt, bandwidth) act between "
        "processes and on the virtual clock: use launch or simulate");
  }
  for (const RankFault& fault : plan.rank_faults)
    if (Status s = check(fault, ranks); !s) return s;
  for (const LinkFault& fault : plan.link_faults)
    if (Status s = check(fault, ranks); !s) return s;
  for (const Reconfiguration& change : plan.reconfigurations) {
    if (Status s = check_times(change.at, kNever); !s) return s;
    if (auto graph = make_topology(change.topology, ranks, 1); !graph) return graph.error();
  }
  return Done{};
}

}  // namespace grapevine
