// The signed bytes of a fact, as its owner and all other nodes compute them.
//
//   "grapevine 4" | kind | run | key of the owner | incarnation | number | content
//
// All numbers are little-endian and have their full width; a text or a list follows its length. So
// no two facts have the same bytes, and of two contents with one number all nodes find the same
// bytes to be the larger. `run` is a hash of the run's name and job: a fact of another run is
// invalid.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "messages/control.hpp"

namespace grapevine {

using FactBytes = std::vector<std::byte>;

/// The mark of the run's facts, computed from this Hello; never 0.
uint64_t run_of(const Hello&);

/// All fields but state and accuser, which other nodes set.
FactBytes fact_bytes(uint64_t run, const Member&);
FactBytes fact_bytes(uint64_t run, const GraphSpec&);
FactBytes fact_bytes(uint64_t run, const PublicKey& owner, const RateFact&);
FactBytes fact_bytes(uint64_t run, const PublicKey& owner, const WorkFact&);

/// The content of an Agree: proves that `sender` has its key, on this connection and no other.
FactBytes link_bytes(const Hello& sender, const Hello& receiver);

}  // namespace grapevine
