// ExchangeKey: names an exchange at both of its ends, for rules that keep data per edge.
#pragma once
#include <cstdint>

namespace grapevine {

struct ExchangeKey {
  int peer = 0;
  uint32_t incarnation = 0, peer_incarnation = 0;  // of this rank and of the peer
  uint64_t number = 0;                             // on this edge: 1, 2, ...
};

}  // namespace grapevine
