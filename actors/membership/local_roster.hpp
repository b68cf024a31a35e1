// LocalRoster: the rosters of a run that has one process. A value without time or I/O.
//
// Epoch 1, of a run that is resumed a later one, has all ranks in incarnation 0. Each change of the
// graph or of its ranks is a new epoch, and a rank that comes back is in its next incarnation.
#pragma once
#include <string>
#include <vector>

#include "actors/membership/roster.hpp"

namespace grapevine {

class LocalRoster {
 public:
  LocalRoster(int ranks, std::string topology, uint64_t first_epoch = 1);

  void gone(int rank);  // nothing where it was gone already
  void back(int rank);
  void reconfigure(std::string topology);

  bool has(int rank) const { return ranks_[static_cast<size_t>(rank)].in_graph; }
  std::vector<int> ranks() const;  // in the graph, rising
  uint64_t epoch() const { return epoch_; }
  const std::string& topology() const { return topology_; }
  RosterPtr roster() const;

 private:
  struct Rank {
    uint32_t incarnation = 0;
    bool in_graph = true;
  };
  uint64_t epoch_ = 1;
  std::string topology_;
  std::vector<Rank> ranks_;
};

}  // namespace grapevine
