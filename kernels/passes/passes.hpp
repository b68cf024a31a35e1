// The implementation of ops.hpp: the passes that are not elementwise, and the builds of all passes.
//
// Plain structs, templates and function pointers only. The sources for newer instruction sets also
// read this header; they must not emit an inline function that other sources would link to.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/passes/low_rank_passes.hpp"
#include "kernels/passes/packing_passes.hpp"
#include "kernels/passes/rule_passes.hpp"
#include "kernels/passes/vector_passes.hpp"

namespace grapevine {

namespace {

/// Calls run(pass) with the pass for these arguments and this element type.
template <class Arguments, class Run>
void with_pass(const Arguments& arguments, bool wide, const Run& run) {
  if (wide) {
    typed_pass<double>(arguments, run);
  } else {
    typed_pass<float>(arguments, run);
  }
}

}  // namespace

template <template <class> class Slot>
struct ElementwiseSlots : RuleSlots<Slot>, VectorSlots<Slot> {};

/// Sums are computed for blocks of this many elements, on any number of threads. In a block,
/// element i belongs to lane i mod kReductionLanes. Then the upper half of the lanes is added to
/// the lower half until one lane is left. The sums of kReductionBlock blocks are summed in the same
/// way, and the results are added in order. So a GPU waits for few additions in a row.
constexpr size_t kReductionBlock = 4096, kReductionLanes = 32;

/// Always inlined: each CPU build has its own instructions.
[[gnu::always_inline]] inline double fold(double (&lane)[kReductionLanes]) {
  for (size_t width = kReductionLanes / 2; width > 0; width /= 2) {
    for (size_t l = 0; l < width; ++l)
      lane[l] += lane[l + width];
  }
  return lane[0];
}

/// out = a, on a device.
struct FillArguments {
  double a;
  void* out;

  void each(size_t size, size_t width, const auto& see) { see(out, size * width, Access::writes); }
};

/// sum += x, on a device.
struct AccumulateArguments {
  const void* x;
  void* sum;  // doubles

  void each(size_t size, size_t width, const auto& see) {
    see(x, size * width, Access::reads);
    see(sum, size * sizeof(double), Access::updates);
  }
};

/// Writes the one number x, on a device.
struct NumberArguments {
  const void* x;
  void* result;  // a double

  void each(size_t, size_t width, const auto& see) {
    see(x, width, Access::reads);
    see(result, sizeof(double), Access::writes);
  }
};

/// x . y or |x - y|^2, on a device.
struct SumArguments {
  bool distance;
  const void *x, *y;
  void *blocks, *result;  // doubles; `blocks` has one per block
  bool rounded = false;   // x and y are bf16 (distances only)

  void each(size_t size, size_t width, const auto& see) {
    const size_t bytes = size * (rounded ? sizeof(BFloat16) : width);
    see(x, bytes, Access::reads);
    see(y, bytes, Access::reads);
    see(blocks, (size + kReductionBlock - 1) / kReductionBlock * sizeof(double), Access::writes);
    see(result, sizeof(double), Access::writes);
  }
};

/// On a device: 1 if all of x is finite, else 0.
struct FiniteArguments {
  const void* x;
  void* result;  // a double

  void each(size_t size, size_t width, const auto& see) {
    see(x, size * width, Access::reads);
    see(result, sizeof(double), Access::writes);
  }
};

/// The most accesses of one pass.
constexpr size_t kMostAccesses = CombineArguments::kMost + 2;

/// An elementwise pass of one build. `wide` means fp64. Elements [first, last).
template <class Arguments>
struct CpuLoop {
  void (*loop)(bool wide, const Arguments&, size_t first, size_t last);
};

/// One build for the CPU. `wide` means fp64. Elements [first, last).
struct CpuBuild {
  const char* name;
  ElementwiseSlots<CpuLoop> elementwise;
  bool (*take)(bool wide, const TakeArguments&, size_t first, size_t last);
  // At most kReductionBlock elements:
  double (*deviation)(bool wide, const void* x, const double* reference, double* sum, size_t first,
                      size_t last);
  double (*dot)(bool wide, const void* x, const void* y, size_t first, size_t last);
  double (*distance)(bool wide, const void* x, const void* y, size_t first, size_t last);
  double (*rounded_distance)(const void* x, const void* y, size_t first, size_t last);  // bf16
  bool (*finite)(bool wide, const void* x, size_t first, size_t last);
  LowRankBuild low_rank;
  PackingBuild packing;
};

extern const CpuBuild kBaselineBuild;
extern const CpuBuild kAvx2Build;    // on x86-64 only
extern const CpuBuild kAvx512Build;  // on x86-64 only

/// The builds that this processor can run, the best one last; ends with null.
const CpuBuild* const* cpu_builds();

/// The CUDA versions. They are queued on `stream`, a cudaStream_t. They neither wait nor check for
/// errors: their caller asks the runtime once (cuda_device.cu). A build without CUDA has none of
/// them.
namespace cuda {

template <class Arguments>
struct Launch {
  void (*queue)(bool wide, const Arguments&, size_t size, void* stream);
};
extern const ElementwiseSlots<Launch> kElementwise;

template <class Arguments>
requires std::is_base_of_v<Launch<Arguments>, ElementwiseSlots<Launch>>
void queue(bool wide, const Arguments& a, size_t size, void* stream) {
  static_cast<const Launch<Arguments>&>(kElementwise).queue(wide, a, size, stream);
}
void queue(bool wide, const TakeArguments&, size_t size, void* stream);
void queue(bool wide, const FillArguments&, size_t size, void* stream);
void queue(bool wide, const AccumulateArguments&, size_t size, void* stream);
void queue(bool wide, const NumberArguments&, size_t size, void* stream);
void queue(bool wide, const SumArguments&, size_t size, void* stream);
void queue(bool wide, const FiniteArguments&, size_t size, void* stream);
void queue(bool wide, const TimesArguments&, size_t size, void* stream);
void queue(bool wide, const TransposedTimesArguments&, size_t size, void* stream);
void queue(bool wide, const AddLowRankArguments&, size_t size, void* stream);
void queue(bool wide, const RenewArguments&, size_t size, void* stream);
void queue(bool wide, const OrthonormaliseArguments&, size_t size, void* stream);
}  // namespace cuda

}  // namespace grapevine
