#include "actors/cluster/node_status.hpp"

#include <set>

#include "actors/membership/membership.hpp"

namespace grapevine {

NodeStatus status_of(const Membership& membership) {
  NodeStatus status;
  status.node = membership.self().node;
  status.members = membership.members();
  status.graph = membership.spec();
  status.rates = membership.edge_rates();
  std::set<uint32_t> ranks;
  for (const MemberTable::Place& place : membership.table().places())
    ranks.insert(place.rank);
  std::erase_if(status.rates,
                [&](const EdgeRate& r) { return ranks.count(r.i) == 0 || ranks.count(r.j) == 0; });
  for (const auto& [why, count] : membership.refusals())
    status.disbelieved.emplace(why, count);
  for (const Member& m : status.members)
    if (m.node != status.node && membership.linked(m.node))
      status.links.push_back({m.node, membership.round_trip_s(m.node), {}});
  return status;
}

std::vector<MemberWork> work_of_others(const Membership& membership) {
  const MemberTable& table = membership.table();
  const auto& told = membership.work();
  std::vector<MemberWork> others;
  for (uint32_t member = 1; member < table.size(); ++member) {
    const Member& m = table.at(member);
    const auto fact = told.find(id_of(m.key));
    const bool has_told = fact != told.end();
    if (!has_told && is_over(m)) continue;
    MemberWork work{.id = id_of(m.key), .node = m.node};
    work.ranks = m.first_rank == kAnyRank || !m.ready ? 0 : static_cast<int>(m.ranks);
    work.is_live = m.state == MemberState::alive;
    if (has_told) {
      work.number = fact->second.number;
      work.taken = fact->second.taken;
      work.per_second = fact->second.per_second;
      work.counted_s = fact->second.counted_s;
    }
    others.push_back(std::move(work));
  }
  return others;
}

}  // namespace grapevine
