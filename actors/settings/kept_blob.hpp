// The object that a script has stored with its rank for the next script: bytes that the node does
// not interpret (for example an optimizer's state), and the script's position in its data.
#pragma once
#include <cstdint>
#include <string>

#include "messages/guest.hpp"

namespace grapevine {

struct KeptBlob {
  std::string bytes;   // empty: the script stored none
  uint64_t steps = 0;  // of the rank at that time
  GuestShare share = {};
};

}  // namespace grapevine
