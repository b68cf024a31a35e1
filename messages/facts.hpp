// What is signed: the bytes of a fact, as its owner and everybody else writes them down.
//
//   "grapevine 4" | kind | run | key of the owner | incarnation | number | content
//
// All numbers are little-endian and of their full width, a text or a list comes after its length.
// So no two facts have the same bytes, and of two contents under one number all nodes find the same
// bytes to be the larger. `run` is a hash of the run's name and job: a fact of another is none.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "messages/control.hpp"

namespace grapevine {

using FactBytes = std::vector<std::byte>;

/// What facts of the run are marked with, as whoever has this Hello says; never 0.
uint64_t run_of(const Hello&);

/// All but what others say of it: state and accuser.
FactBytes fact_bytes(uint64_t run, const Member&);
FactBytes fact_bytes(uint64_t run, const GraphSpec&);
FactBytes fact_bytes(uint64_t run, const PublicKey& owner, const RateFact&);
FactBytes fact_bytes(uint64_t run, const PublicKey& owner, const WorkFact&);

/// What an Agree proves: that `sender` has its key, on this connection and no other.
FactBytes link_bytes(const Hello& sender, const Hello& receiver);

}  // namespace grapevine
