// The implementation of compressor.hpp and moniqua.hpp: one build's passes from numbers to packed
// bits and back. Plain structs only, see passes.hpp.
//
// Packed numbers are in groups of 8, `bits` bytes per group: element i of a group begins at bit i
// bits, low bits first. A range of groups may be any part of a vector; the last group may be short
// and then has ceil(elements bits / 8) bytes.
#pragma once
#include <cstddef>
#include <cstdint>

namespace grapevine {

constexpr size_t kGroup = 8;  // elements

/// Level floor(clamp(v scale + shift, 0, 2^bits - 1)) for each v.
struct QuantiseArguments {
  int bits;
  double scale, shift;
  const void* v;
};

/// y += slope level + offset.
struct DequantiseArguments {
  int bits;
  double slope, offset;
  void* y;
};

/// See moniqua.hpp; `noise` has one 16-bit number per element, from `first` on.
struct MoniquaArguments {
  double theta, a;
  const void* x;
  void* y;
};

/// `wide` means fp64. Elements [first, last), where `first` is a multiple of kGroup. Byte pointers
/// are those of the complete vector.
struct PackingBuild {
  // At most kReductionBlock elements: sum and maximum of |v|. NaNs do not count for the maximum.
  double (*absolute_sum)(bool wide, const void* v, size_t first, size_t last);
  double (*largest)(bool wide, const void* v, size_t first, size_t last);
  /// Writes the places i with |v_i| >= threshold to `places`, in order, and returns their number.
  /// At most kReductionBlock elements; `places` must have room for 8 more than are found.
  size_t (*at_least)(bool wide, const void* v, double threshold, size_t first, size_t last,
                     uint32_t* places);
  /// One bit per element: its sign bit.
  void (*pack_signs)(bool wide, const void* v, size_t first, size_t last, uint8_t* bytes);
  /// y += s, or y -= s where the bit is set.
  void (*add_signs)(bool wide, const uint8_t* bytes, double s, size_t first, size_t last, void* y);
  void (*quantise)(bool wide, const QuantiseArguments&, size_t first, size_t last, uint8_t* bytes);
  void (*dequantise)(bool wide, const DequantiseArguments&, size_t first, size_t last,
                     const uint8_t* bytes);
  void (*moniqua)(bool wide, const MoniquaArguments&, const uint16_t* noise, size_t first,
                  size_t last, uint8_t* bytes);
  void (*moniqua_add)(bool wide, const MoniquaArguments&, size_t first, size_t last,
                      const uint8_t* sent, const uint8_t* received);
  /// 8 numbers of 16 bits from each Philox block of [first, last) under this key and counter: block
  /// b has counter {b, counter[1..3]} (kernels/base/random.hpp).
  void (*noise)(const uint32_t key[2], const uint32_t counter[4], uint32_t first, uint32_t last,
                uint16_t* out);
};

}  // namespace grapevine
