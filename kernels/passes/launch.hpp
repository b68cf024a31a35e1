// From the arguments of a pass to its device: queue(on, wide, arguments, size).
//
// It combines the memory that a pass uses with its two versions: the CUDA version in cuda::queue,
// and the CPU version for the full length, by the best build. Both give the same bits.
#pragma once
#include <limits>

#include "kernels/device/device.hpp"
#include "kernels/passes/codec_passes.hpp"
#include "kernels/passes/cpu/split.hpp"
#include "kernels/passes/passes.hpp"

namespace grapevine::passes {

/// Elements [first, last) of an elementwise pass.
template <class Arguments>
void run(const CpuBuild& build, bool wide, const Arguments& a, size_t first, size_t last) {
  static_cast<const CpuLoop<Arguments>&>(build.elementwise).loop(wide, a, first, last);
}

// --- CPU versions of passes that run in one piece

template <class Body>
void with_element(bool wide, const Body& body) {
  wide ? body(double{}) : body(float{});
}

template <class Arguments>
void run_whole(const CpuBuild& build, bool wide, const Arguments& a, size_t size) {
  run(build, wide, a, 0, size);
}
inline void run_whole(const CpuBuild& build, bool wide, const TakeArguments& a, size_t size) {
  *static_cast<double*>(a.finite) = build.take(wide, a, 0, size) ? 1 : 0;
}
inline void run_whole(const CpuBuild&, bool wide, const FillArguments& a, size_t size) {
  with_element(wide,
               [&]<class T>(T) { std::fill_n(static_cast<T*>(a.out), size, static_cast<T>(a.a)); });
}
inline void run_whole(const CpuBuild&, bool wide, const AccumulateArguments& a, size_t size) {
  with_element(wide, [&]<class T>(T) {
    for (size_t i = 0; i < size; ++i)
      static_cast<double*>(a.sum)[i] += static_cast<double>(static_cast<const T*>(a.x)[i]);
  });
}
inline void run_whole(const CpuBuild&, bool wide, const NumberArguments& a, size_t) {
  with_element(wide, [&]<class T>(T) {
    *static_cast<double*>(a.result) = static_cast<double>(*static_cast<const T*>(a.x));
  });
}
inline void run_whole(const CpuBuild& build, bool wide, const SumArguments& a, size_t size) {
  const auto block = [&](size_t first, size_t last) {
    if (a.rounded) return build.rounded_distance(a.x, a.y, first, last);
    return (a.distance ? build.distance : build.dot)(wide, a.x, a.y, first, last);
  };
  BlockSum all;
  for (size_t i = 0, k = 0; i < size; i += kReductionBlock, ++k) {
    const double sum = block(i, std::min(size, i + kReductionBlock));
    static_cast<double*>(a.blocks)[k] = sum;
    all.add(sum);
  }
  *static_cast<double*>(a.result) = all.total();
}
inline void run_whole(const CpuBuild& build, bool wide, const FiniteArguments& a, size_t size) {
  bool finite = true;
  for (size_t i = 0; finite && i < size; i += kReductionBlock)
    finite = build.finite(wide, a.x, i, std::min(size, i + kReductionBlock));
  *static_cast<double*>(a.result) = finite ? 1 : 0;
}
/// Whether a column with this square has a direction: it is neither zero nor infinite.
inline bool has_direction(double square) {
  return square > 0 && square <= std::numeric_limits<double>::max();
}
inline void run_whole(const CpuBuild&, bool wide, const RenewArguments& a, size_t) {
  if (!a.always && has_direction(*static_cast<const double*>(a.square))) return;
  with_element(wide, [&]<class T>(T) {
    for (size_t i = 0; i < a.count; ++i)
      static_cast<T*>(a.column)[i] = static_cast<T>(a.values[i]);
  });
}
inline void run_whole(const CpuBuild& build, bool wide, const TimesArguments& a, size_t) {
  build.low_rank.times(wide, a, 0, a.rows);
}
inline void run_whole(const CpuBuild& build, bool wide, const TransposedTimesArguments& a, size_t) {
  build.low_rank.transposed_times(wide, a, 0, a.columns);
}
inline void run_whole(const CpuBuild& build, bool wide, const AddLowRankArguments& a, size_t) {
  build.low_rank.add(wide, a, 0, a.rows);
}
inline void run_whole(const CpuBuild& build, bool wide, const OrthonormaliseArguments& a, size_t) {
  build.low_rank.orthonormalise(wide, a.rows, a.rank, a.factor);
}

/// Queues the pass on on.device, over `size` elements. REQUIRES: there is a device.
template <class Arguments>
void queue(const Execution& on, bool wide, Arguments a, size_t size,
           Where where = Where::current()) {
  const size_t width = wide ? sizeof(double) : sizeof(float);
  Access accesses[kMostAccesses];
  size_t count = 0;
  a.each(size, width, [&](auto*& vector, size_t bytes, Access::Mode mode) {
    accesses[count++] = {vector, bytes, mode};
  });
  const auto body = [a, size, width, wide](void* native, void* const* addresses) {
    Arguments here = a;
    size_t k = 0;
    here.each(size, width, [&](auto*& vector, size_t, Access::Mode) { vector = addresses[k++]; });
#ifdef GRAPEVINE_CUDA
    if (native != nullptr) return cuda::queue(wide, here, size, native);
#endif
    GV_CHECK(native == nullptr);
    run_whole(best_build(), wide, here, size);
  };
  // A lost device has told its owner, so this function reports nothing.
  static_cast<void>(on.device->launch(on.stream, {accesses, count}, body, where));
}

}  // namespace grapevine::passes
