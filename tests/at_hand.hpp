// Ranks that share a process, as faults of links say it.
#pragma once
#include "actors/transport/link_model.hpp"

namespace grapevine::test {

/// So many ranks in a process: what goes between them takes next to no time.
inline LinkFault at_hand(int ranks, int in_process) {
  LinkFault fault;
  fault.kind = LinkFaultKind::delay;
  fault.factor = 1e-3;
  for (int rank = 0; rank < ranks; ++rank)
    for (int other = rank / in_process * in_process; other < rank; ++other)
      fault.links.push_back({rank, other});
  return fault;
}

}  // namespace grapevine::test
