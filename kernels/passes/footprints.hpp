// What each pass touches, said once: each(arguments, size, width, see) calls see(pointer, bytes,
// mode) for every vector of a pass over `size` elements of `width` bytes, in a fixed order, absent
// vectors (null) included. `see` may change the pointer.
//
// The spans that a device is told, the addresses that it hands back and the alignment of a CUDA
// launch all come from here, and tests/device/footprints_test.cpp lays every span against a guard
// page. The structs themselves are in passes.hpp and low_rank_passes.hpp, which the sources for
// newer instruction sets read: those must not see the inline functions of other headers.
#pragma once
#include "kernels/device/device.hpp"
#include "kernels/passes/codec_passes.hpp"
#include "kernels/passes/moniqua.hpp"
#include "kernels/passes/ops.hpp"
#include "kernels/passes/passes.hpp"

namespace grapevine {

/// Accesses that one pass has at most.
constexpr size_t kMostAccesses = CombineArguments::kMost + 2;

namespace footprint_detail {
using enum Access::Mode;

/// A vector that a pass writes: where it may also be one that is read, the pass updates it.
inline Access::Mode written(bool is_read_too) { return is_read_too ? updates : writes; }

/// Bytes from the first to the last of `count` elements that lie `stride` apart.
inline size_t reach(size_t count, size_t stride, size_t width) {
  return count == 0 ? 0 : ((count - 1) * stride + 1) * width;
}
}  // namespace footprint_detail

template <class See>
void each(ExtrapolateArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.x, size * width, reads);
  see(a.x_tilde, size * width, reads);
  see(a.out, size * width, writes);
}

template <class See>
void each(JumpArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.sent, size * width, reads);
  see(a.received, size * width, reads);
  see(a.x, size * width, updates);
  see(a.x_tilde, size * width, updates);
}

template <class See>
void each(RoundArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.x, size * width, reads);
  see(a.x_tilde, size * width, reads);
  see(a.out, size * sizeof(BFloat16), writes);
}

template <class See>
void each(RoundedJumpArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.sent, size * sizeof(BFloat16), reads);
  see(a.received, size * sizeof(BFloat16), reads);
  see(a.x, size * width, updates);
  see(a.x_tilde, size * width, updates);
}

template <class See>
void each(StepArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.g, size * width, reads);
  see(a.v, size * width, updates);
  see(a.x, size * width, updates);
  see(a.x_tilde, size * width, updates);
  see(a.copy, size * width, writes);
}

template <class See>
void each(TakeArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.front, size * width, updates);
  see(a.base, size * width, updates);
  see(a.x, size * width, updates);
  see(a.x_tilde, size * width, updates);
  see(a.finite, sizeof(double), writes);
}

template <class See>
void each(AxpyArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.x, size * width, reads);
  see(a.y, size * width, updates);
}

template <class See>
void each(ScaleArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  const bool in_place = a.x == a.y;
  see(a.x, size * width, reads);
  see(a.y, size * width, written(in_place));
}

template <class See>
void each(AdamArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.g, size * width, reads);
  see(a.m, size * width, updates);
  see(a.v, size * width, updates);
  see(a.x, size * width, updates);
  see(a.x_tilde, size * width, updates);
  see(a.copy, size * width, writes);
}

template <class See>
void each(CombineArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  bool in_place = a.base == a.out;
  for (int k = 0; k < a.count; ++k)
    in_place = in_place || a.x[k] == a.out;
  for (int k = 0; k < a.count; ++k)
    see(a.x[k], size * width, reads);
  see(a.base, size * width, reads);
  see(a.out, size * width, written(in_place));
}

template <class See>
void each(GatherArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.x, reach(size, a.stride, width), reads);
  see(a.out, size * width, writes);
}

template <class See>
void each(ScatterArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.x, size * width, reads);
  see(a.out, reach(size, a.stride, width), written(a.stride > 1));  // keeps what lies between
}

template <class See>
void each(FillArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.out, size * width, writes);
}

template <class See>
void each(AccumulateArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.x, size * width, reads);
  see(a.sum, size * sizeof(double), updates);
}

template <class See>
void each(NumberArguments& a, size_t, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.x, width, reads);
  see(a.result, sizeof(double), writes);
}

template <class See>
void each(SumArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  const size_t bytes = size * (a.rounded ? sizeof(BFloat16) : width);
  see(a.x, bytes, reads);
  see(a.y, bytes, reads);
  see(a.blocks, reduction_blocks(size) * sizeof(double), writes);
  see(a.result, sizeof(double), writes);
}

template <class See>
void each(FiniteArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.x, size * width, reads);
  see(a.result, sizeof(double), writes);
}

// Of the passes over matrices `size` is not used: the arguments have the shape.

template <class See>
void each(TimesArguments& a, size_t, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.x, a.rows * a.columns * width, reads);
  see(a.factor, a.columns * a.rank * width, reads);
  see(a.out, a.rows * a.rank * width, writes);
}

template <class See>
void each(TransposedTimesArguments& a, size_t, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.x, a.rows * a.columns * width, reads);
  see(a.factor, a.rows * a.rank * width, reads);
  see(a.out, a.columns * a.rank * width, writes);
}

template <class See>
void each(AddLowRankArguments& a, size_t, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.p, a.rows * a.rank * width, reads);
  see(a.q, a.columns * a.rank * width, reads);
  see(a.x, a.rows * a.columns * width, updates);
  see(a.x_tilde, a.rows * a.columns * width, updates);
}

template <class See>
void each(RenewArguments& a, size_t, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.square, sizeof(double), reads);
  see(a.column, a.count * width, updates);
}

template <class See>
void each(OrthonormaliseArguments& a, size_t, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.factor, a.rows * a.rank * width, updates);
}

// Of the passes over encoded bytes.

template <class See>
void each(EncodeArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.v, size * width, reads);
  see(a.scratch, codec::scratch_bytes_of(a.tensor, width), updates);
  see(a.bytes, a.tensor.bytes, writes);
}

template <class See>
void each(DecodeArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.bytes, a.tensor.bytes, reads);
  see(a.y, size * width, updates);
}

template <class See>
void each(DrawArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.out, size * width, writes);
}

template <class See>
void each(MoniquaEncodeArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.x, size * width, reads);
  see(a.bytes, moniqua_bytes(size), writes);
}

template <class See>
void each(MoniquaAddArguments& a, size_t size, size_t width, const See& see) {
  using namespace footprint_detail;
  see(a.x, size * width, reads);
  see(a.sent, moniqua_bytes(size), reads);
  see(a.received, moniqua_bytes(size), reads);
  see(a.y, size * width, updates);
}

}  // namespace grapevine
