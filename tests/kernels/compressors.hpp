// Shared by the tests of compressors: all kinds, a layout of awkward tensors, and C(v) decoded from
// its bytes.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "kernels/codecs/compressor.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/tools.hpp"

namespace grapevine::testing {

constexpr Execution kCpu{};
constexpr uint64_t kSeed = 11;

inline const std::vector<std::string> kSpecs = {
    "identity",   "top-k:0.1",  "random-k:0.1", "sign",       "low-rank:1",  "low-rank:3",
    "quantise:1", "quantise:2", "quantise:5",   "quantise:8", "quantise:11", "quantise:16"};

/// Tensors of awkward sizes, so that all but the first begin in the middle of a vector register.
inline ParameterLayout awkward(DType dtype) {
  ParameterLayout layout(dtype);
  layout.add("kernel", {7, 3, 5, 1}, true);
  layout.add("bias", {9}, false);
  layout.add("scalar", {}, false);
  layout.add("no rows", {0, 4}, true);
  layout.add("thin", {2, 3}, true);
  layout.add("no columns", {4, 0}, true);
  layout.add("wide", {33, 131}, true);
  return layout;
}

inline Compressor made(const std::string& spec, const ParameterLayout& layout) {
  return *Compressor::make(spec, layout, kSeed);
}

inline std::vector<std::byte> encoded(const Compressor& c, const ConstVec& v,
                                      const Execution& on = kCpu, uint32_t rank = 3,
                                      uint64_t index = 5) {
  std::vector<std::byte> bytes(c.bytes() + 1, std::byte{0xa5});
  c.encode(on, v, rank, index, bytes.data());
  CHECK(bytes.back() == std::byte{0xa5});
  bytes.pop_back();
  return bytes;
}

/// C(v), by way of bytes that begin at an odd address.
inline Buffer compressed(const Compressor& c, const ConstVec& v, const Execution& on = kCpu) {
  std::vector<std::byte> shifted = encoded(c, v, on);
  shifted.insert(shifted.begin(), std::byte{});
  Buffer y(v.size, v.dtype);
  c.decode(on, shifted.data() + 1, 3, 5, 1, y);
  return y;
}

inline double square(const ConstVec& v) { return dot(kCpu, v, v); }

inline double square_left(const ConstVec& v, const ConstVec& kept) {
  double sum = 0;
  for (size_t i = 0; i < v.size; ++i)
    sum += std::pow(element(v, i) - element(kept, i), 2);
  return sum;
}

}  // namespace grapevine::testing
