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

}  // namespace grapevine
