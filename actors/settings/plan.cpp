#include "actors/settings/plan.hpp"

#include <fmt/core.h>

#include <cmath>
#include <utility>

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
  return user_error(fmt::format("ranks names {}, accepted: 0 to {}", rank, ranks - 1));
}

Status check_times(double at, double until) {
  if (std::isfinite(at) && at >= 0 && until > at) return Done{};
  return user_error(fmt::format("at = {}, until = {}, accepted: 0 <= at < until", at, until));
}

Status check_factor(const char* key, double value) {
  if (std::isfinite(value) && value > 0) return Done{};
  return user_error(fmt::format("{} = {}, accepted: a number above 0", key, value));
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
    return user_error(fmt::format("probability = {}, accepted: 0 to 1", fault.probability));
  }
  if (!(std::isfinite(fault.seconds) && fault.seconds >= 0)) {
    return user_error(fmt::format("seconds = {}, accepted: 0 or more", fault.seconds));
  }
  if (fault.kind == LinkFaultKind::bandwidth) {
    if (Status s = check_factor("bytes_per_second", fault.bytes_per_second); !s) return s;
  }
  return check_factor("factor", fault.factor);
}

Status check(const Reconfiguration& change, int ranks) {
  if (Status s = check_times(change.at, kNever); !s) return s;
  if (auto graph = make_topology(change.topology, ranks, 1); !graph) return graph.error();
  return Done{};
}

template <class Fault>
Status check_all(const std::vector<Fault>& faults, int ranks) {
  for (const Fault& fault : faults)
    if (Status s = check(fault, ranks); !s)
      return user_error(fault.where + ": " + s.error().message);
  return Done{};
}

}  // namespace

Status check(const Plan& plan, int ranks, bool wall_clock) {
  if (wall_clock && !plan.link_faults.empty()) {
    return user_error(
        "plan: link faults (loss, delay, cut, one_way, repeat, corrupt, bandwidth) act between "
        "processes and on the virtual clock: use launch or simulate");
  }
  if (Status s = check_all(plan.rank_faults, ranks); !s) return s;
  if (Status s = check_all(plan.link_faults, ranks); !s) return s;
  return check_all(plan.reconfigurations, ranks);
}

// --- faults without an effect

namespace {

bool neighbours(const std::vector<Topology>& graphs, std::pair<int, int> link) {
  for (const Topology& graph : graphs)
    for (const Neighbour& n : graph.neighbours(link.first))
      if (n.rank == link.second) return true;
  return false;
}

std::string never(const LinkFault& fault) {
  const bool by_chance = fault.kind == LinkFaultKind::loss || fault.kind == LinkFaultKind::repeat ||
                         fault.kind == LinkFaultKind::corrupt;
  if (by_chance && fault.probability == 0) return "probability is 0";
  if (fault.kind == LinkFaultKind::delay && fault.seconds == 0 && fault.factor == 1)
    return "a delay of 0 seconds, times 1";
  return "";
}

std::string never(const RankFault& fault) {
  return fault.kind == RankFaultKind::slow && fault.factor == 1 ? "slower by the factor 1" : "";
}

std::string never(const Reconfiguration&) { return ""; }

}  // namespace

std::vector<std::string> without_effect(const Plan& plan, const std::string& topology, int ranks,
                                        double until_s) {
  std::vector<std::string> lines;
  const auto say = [&](const std::string& where, const std::string& why) {
    lines.push_back(where + ": without effect: " + why);
  };
  const auto find_idle = [&](const auto& faults) {
    for (const auto& fault : faults) {
      if (until_s > 0 && fault.at >= until_s)
        say(fault.where, fmt::format("it begins at {} s, the run ends at {} s", fault.at, until_s));
      if (const std::string why = never(fault); !why.empty()) say(fault.where, why);
    }
  };
  find_idle(plan.rank_faults);
  find_idle(plan.link_faults);
  find_idle(plan.reconfigurations);
  if (topology.empty()) return lines;
  std::vector<Topology> graphs;
  if (auto graph = make_topology(topology, ranks, 1)) graphs.push_back(std::move(*graph));
  for (const Reconfiguration& change : plan.reconfigurations)
    if (auto graph = make_topology(change.topology, ranks, 1)) graphs.push_back(std::move(*graph));
  for (const LinkFault& fault : plan.link_faults)
    for (const auto& link : fault.links)
      if (!neighbours(graphs, link))
        say(fault.where, fmt::format("ranks {} and {} are no neighbours", link.first, link.second));
  return lines;
}

}  // namespace grapevine
