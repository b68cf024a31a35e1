// The signed bytes of a fact, which its owner and all other nodes compute alike.
//
//   "grapevine 5" | kind | run | key of the owner | incarnation | number | content
//
// All numbers are little-endian and have their full width; a text or a list follows its length. So
// two different facts never have the same bytes, and all nodes agree which of two contents with one
// number has the larger bytes. `run` is a hash of the run's name and job: a fact of another run is
// invalid.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "messages/control.hpp"

namespace grapevine {

using FactBytes = std::vector<std::byte>;

/// The hash of run and job in this Hello, for the run's facts; never 0.
uint64_t run_of(const Hello&);

/// All fields except state and accuser, which other nodes set.
FactBytes fact_bytes(uint64_t run, const Member&);
FactBytes fact_bytes(uint64_t run, const GraphSpec&);
FactBytes fact_bytes(uint64_t run, const PublicKey& owner, const RateFact&);
FactBytes fact_bytes(uint64_t run, const PublicKey& owner, const WorkFact&);

/// The content of an Agree: proves that `sender` has its key, on this connection only.
FactBytes link_bytes(const Hello& sender, const Hello& receiver);

}  // namespace grapevine
