// What a script has left with its rank for the script that comes after it: bytes that nobody here
// reads, its optimizer's state for instance, and how far it was in its data.
#pragma once
#include <cstdint>
#include <string>

#include "messages/guest.hpp"

namespace grapevine {

struct KeptBlob {
  std::string bytes;   // empty: nothing was left
  uint64_t steps = 0;  // of the rank, when it was left
  GuestShare share;
};

}  // namespace grapevine
