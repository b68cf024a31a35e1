#include "actors/membership/local_roster.hpp"

namespace grapevine {

LocalRoster::LocalRoster(int ranks, std::string topology, uint64_t first_epoch)
    : epoch_(first_epoch), topology_(std::move(topology)), ranks_(static_cast<size_t>(ranks)) {}

void LocalRoster::gone(int rank) {
  if (!has(rank)) return;
  ranks_[static_cast<size_t>(rank)].in_graph = false;
  ++epoch_;
}

void LocalRoster::back(int rank) {
  Rank& r = ranks_[static_cast<size_t>(rank)];
  ++r.incarnation;
  r.in_graph = true;
  ++epoch_;
}

void LocalRoster::reconfigure(std::string topology) {
  topology_ = std::move(topology);
  ++epoch_;
}

std::vector<int> LocalRoster::ranks() const {
  std::vector<int> in_graph;
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].in_graph) in_graph.push_back(static_cast<int>(rank));
  return in_graph;
}

RosterPtr LocalRoster::roster() const {
  auto roster = std::make_shared<Roster>();
  roster->epoch = epoch_;
  roster->topology = topology_;
  for (const int rank : ranks())
    roster->ranks.push_back({rank, ranks_[static_cast<size_t>(rank)].incarnation});
  return roster;
}

}  // namespace grapevine
