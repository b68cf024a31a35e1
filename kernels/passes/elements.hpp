// The parts of elementwise passes, for the CPU and for CUDA. Sources are built without fused
// multiply-add, so every build of a pass, also on a GPU, gives the same bits.
//
// A pass is described once, in one block of rule_passes.hpp or vector_passes.hpp:
// - its arguments, already checked;
// - each(size, width, see), which calls see(pointer, bytes, mode) for every vector of the pass over
//   `size` elements of `width` bytes, in a fixed order, including absent vectors (null); `see` may
//   change the pointer;
// - the arithmetic of an element: a value {coefficients, pointers} whose at<N>(i) handles elements
//   i .. i+N-1. The CPU uses N = 1, and the compiler vectorises the loop; CUDA uses 16 bytes per
//   thread if every pointer allows it. Optional vectors are template flags, so no loop tests them;
// - typed_pass, which selects that value by the arguments and the type of an element.
// From this follow the loops of the CPU builds (cpu/loops.hpp), the launches on CUDA (cuda/ops.cu),
// the memory ranges that a device is told, the addresses that it returns and the alignment of a
// launch (launch.hpp). tests/device/footprints_test.cpp puts every range next to a guard page.
//
// The unnamed namespace is needed: each instruction set is its own translation unit and must keep
// its own copies. A shared copy could be linked into the build for an older processor.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/base/bfloat16.hpp"
#include "kernels/device/access.hpp"

#ifdef __CUDACC__
#define GV_ELEMENT __host__ __device__ __forceinline__
#else
#define GV_ELEMENT inline __attribute__((always_inline))
#endif

namespace grapevine {

/// A value Slot<Arguments> for each of these passes.
template <template <class> class Slot, class... Arguments>
struct Slots : Slot<Arguments>... {};

namespace touched {
/// The mode of a vector that a pass writes: `updates` if the pass may also read it.
inline Access::Mode written(bool is_read_too) {
  return is_read_too ? Access::updates : Access::writes;
}

/// Bytes from the first to the last of `count` elements at distance `stride`.
inline size_t reach(size_t count, size_t stride, size_t width) {
  return count == 0 ? 0 : ((count - 1) * stride + 1) * width;
}
}  // namespace touched

namespace {

template <class T>
GV_ELEMENT void mix(T c, T& x, T& x_tilde) {
  const T s = c * (x_tilde - x);
  x += s;
  x_tilde -= s;
}

GV_ELEMENT float square_root(float x) { return __builtin_sqrtf(x); }
GV_ELEMENT double square_root(double x) { return __builtin_sqrt(x); }

template <class T, int N>
struct alignas(N * sizeof(T)) Pack {
  T at[N];
};

template <int N, class T>
GV_ELEMENT Pack<T, N> load(const T* p, size_t i) {
  return *reinterpret_cast<const Pack<T, N>*>(p + i);
}
#ifdef __CUDA_ARCH__
template <size_t bytes>
struct Whole;
template <>
struct Whole<16> {
  using Type = uint4;
};
template <>
struct Whole<8> {
  using Type = uint2;
};
template <>
struct Whole<4> {
  using Type = unsigned;
};
#endif

/// As one access: nvcc would split the assignment to memory that was not read before.
template <int N, class T>
GV_ELEMENT void store(T* p, size_t i, const Pack<T, N>& pack) {
#ifdef __CUDA_ARCH__
  if constexpr (N > 1) {
    typename Whole<sizeof pack>::Type whole;
    __builtin_memcpy(&whole, &pack, sizeof whole);
    return __stwb(reinterpret_cast<decltype(whole)*>(p + i), whole);
  }
#endif
  *reinterpret_cast<Pack<T, N>*>(p + i) = pack;
}

GV_ELEMENT float widened(float v) { return v; }
GV_ELEMENT double widened(double v) { return v; }
GV_ELEMENT float widened(BFloat16 v) {
  const uint32_t bits = static_cast<uint32_t>(v.bits) << 16;
  float number;
  __builtin_memcpy(&number, &bits, sizeof number);
  return number;
}

/// Rounds to the nearest, ties to even.
GV_ELEMENT BFloat16 rounded(float v) {
  uint32_t bits;
  __builtin_memcpy(&bits, &v, sizeof bits);
  const uint32_t nearest = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  const uint32_t quiet = bits >> 16 | 0x40u;  // a NaN stays a NaN
  return {static_cast<uint16_t>(v == v ? nearest : quiet)};
}

template <class T>
const T* in(const void* p) {
  return static_cast<const T*>(p);
}
template <class T>
T* out(void* p) {
  return static_cast<T*>(p);
}

template <bool kValue>
struct Flag {
  static constexpr bool value = kValue;
};

template <class Body>
void with_flag(bool value, const Body& body) {
  if (value) {
    body(Flag<true>{});
  } else {
    body(Flag<false>{});
  }
}

}  // namespace
}  // namespace grapevine
