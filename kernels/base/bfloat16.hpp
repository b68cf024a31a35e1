// BFloat16: the upper half of a float, with 8 bits of exponent and 7 of mantissa. A plain struct:
// the sources for newer instruction sets read this header, too.
#pragma once
#include <cstdint>

namespace grapevine {

struct BFloat16 {
  uint16_t bits;
};

}  // namespace grapevine
