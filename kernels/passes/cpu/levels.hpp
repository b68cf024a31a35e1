// Numbers to packed levels and back in one CPU build; included by packing.hpp.
#pragma once
#include "kernels/passes/cpu/bits.hpp"
#include "kernels/passes/elements_packing.hpp"
#include "kernels/passes/packing_passes.hpp"
#include "kernels/passes/passes.hpp"

namespace grapevine {
namespace {

/// Calls body(i, n) for blocks of n <= kLevelBlock elements.
template <class Body>
GV_ELEMENT void level_blocks(size_t first, size_t last, const Body& body) {
  for (size_t i = first; i < last; i += kLevelBlock) {
    body(i, last - i < kLevelBlock ? last - i : kLevelBlock);
  }
}

template <class T>
void quantise(const QuantiseArguments& g, size_t first, size_t last, uint8_t* bytes) {
  const T scale = T(g.scale), shift = T(g.shift), top = T((1 << g.bits) - 1);
  with_bits(g.bits, [&](auto bits) {
    level_blocks(first, last, [&](size_t i, size_t n) {
      int32_t levels[kLevelBlock];
      const T* v = in<T>(g.v) + i;
      for (size_t k = 0; k < n; ++k)
        levels[k] = level_of(v[k] * scale + shift, top);
      pack_levels<decltype(bits)::value>(levels, n, bytes + i / kGroup * decltype(bits)::value);
    });
  });
}

template <class T>
void dequantise(const DequantiseArguments& g, size_t first, size_t last, const uint8_t* bytes) {
  const T slope = T(g.slope), offset = T(g.offset);
  with_bits(g.bits, [&](auto bits) {
    level_blocks(first, last, [&](size_t i, size_t n) {
      int32_t levels[kLevelBlock];
      unpack_levels<decltype(bits)::value>(bytes + i / kGroup * decltype(bits)::value, n, levels);
      T* y = out<T>(g.y) + i;
      for (size_t k = 0; k < n; ++k)
        y[k] += slope * T(levels[k]) + offset;
    });
  });
}

}  // namespace
}  // namespace grapevine
