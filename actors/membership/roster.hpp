// Roster: the ranks of one epoch, as every node with the same knowledge has it. A value.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "messages/control.hpp"

namespace grapevine {

struct Roster {
  struct Rank {
    int rank = 0;
    uint32_t incarnation = 0;
  };
  uint64_t epoch = 0;
  std::string topology;
  std::vector<Rank> ranks;  // by rising rank, this node's among them
};
using RosterPtr = std::shared_ptr<const Roster>;

/// Exchanges per second by edge, as measured here or as other nodes have told.
using EdgeRatesPtr = std::shared_ptr<const std::vector<EdgeRate>>;

}  // namespace grapevine
