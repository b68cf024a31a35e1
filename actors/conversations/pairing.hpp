// Pairing: when a rank averages, and with which neighbour (partner_policy.hpp).
#pragma once
#include <cstdint>

namespace grapevine {

enum class Pairing : uint8_t {
  free,     // each rank's own clock, and the neighbour that it used least recently
  poisson,  // a Poisson clock per edge: the process of the A2CiD2 paper
};

}  // namespace grapevine
