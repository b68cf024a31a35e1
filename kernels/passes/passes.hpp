// The inside of ops.hpp: a call's arguments once they are checked, and the builds that carry it
// out. What each pass touches stands in footprints.hpp.
//
// Plain structs and function pointers only: this header is also read by the sources that are
// compiled for newer instruction sets, which must not leave an inline function behind that others
// would link to.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/base/bfloat16.hpp"
#include "kernels/passes/low_rank_passes.hpp"
#include "kernels/passes/packing_passes.hpp"

namespace grapevine {

struct ExtrapolateArguments {
  double c;
  const void *x, *x_tilde;
  void* out;
  bool streamed = false;  // CPU: `out` is written past the caches
};

struct JumpArguments {
  double c, alpha, alpha_tilde;
  const void *sent, *received;
  void *x, *x_tilde;  // x_tilde may be null
};

/// As ExtrapolateArguments, out in bf16.
struct RoundArguments {
  double c;
  const void *x, *x_tilde;  // x_tilde may be null
  void* out;
};

/// As JumpArguments, sent and received in bf16.
struct RoundedJumpArguments {
  double c, alpha, alpha_tilde;
  const void *sent, *received;
  void *x, *x_tilde;  // x_tilde may be null
};

struct StepArguments {
  double c, lr, momentum, weight_decay;
  bool nesterov;
  const void* g;
  void *v, *x, *x_tilde, *copy;  // all but x may be null
  bool streamed = false;         // CPU: `copy` is written past the caches
};

struct TakeArguments {
  double c;
  void *front, *base, *x, *x_tilde;  // x_tilde may be null
  void* finite = nullptr;            // on a device, a double: 1 where front was finite, else 0
};

struct AxpyArguments {
  double a;
  const void* x;
  void* y;
};

struct ScaleArguments {
  double a;
  const void* x;
  void* y;
};

struct AdamArguments {
  double c, lr, beta1, beta2, unbias1, unbias2, epsilon, weight_decay;
  bool decoupled;
  const void* g;
  void *m, *v, *x, *x_tilde, *copy;  // x_tilde and copy may be null
  bool streamed = false;             // CPU: `copy` is written past the caches
};

/// out = base + a_0 x_0 + a_1 x_1 + ...
struct CombineArguments {
  static constexpr int kMost = 8;  // terms of one pass
  int count;                       // 1 to kMost
  double a[kMost];
  const void* x[kMost];
  const void* base;  // null: none
  void* out;
  bool streamed = false;  // CPU: `out` is written past the caches
};

/// out[i] = x[i stride], `x` at the first element that is read.
struct GatherArguments {
  size_t stride;
  const void* x;
  void* out;
};

/// out[i stride] = x[i], `out` at the first element that is written.
struct ScatterArguments {
  size_t stride;
  const void* x;
  void* out;
};

/// out = a, on a device.
struct FillArguments {
  double a;
  void* out;
};

/// sum += x, on a device.
struct AccumulateArguments {
  const void* x;
  void* sum;  // doubles
};

/// The one number x, on a device.
struct NumberArguments {
  const void* x;
  void* result;  // a double
};

/// x . y or |x - y|^2, on a device.
struct SumArguments {
  bool distance;
  const void *x, *y;
  void *blocks, *result;  // doubles, `blocks` one of each block of the reduction
  bool rounded = false;   // x and y in bf16, of a distance
};

/// On a device: 1 where all of x is finite, else 0.
struct FiniteArguments {
  const void* x;
  void* result;  // a double
};

/// Sums are taken over blocks of this many elements and the blocks added in order, whoever computed
/// them. Within a block element i belongs to lane i mod kReductionLanes; then the upper half of the
/// lanes is added to the lower one until one is left.
constexpr size_t kReductionBlock = 8192, kReductionLanes = 16;

/// One build for the CPU. `wide` means fp64. Elements [first, last).
struct CpuBuild {
  const char* name;
  void (*extrapolate)(bool wide, const ExtrapolateArguments&, size_t first, size_t last);
  void (*jump)(bool wide, const JumpArguments&, size_t first, size_t last);
  void (*round)(bool wide, const RoundArguments&, size_t first, size_t last);
  void (*rounded_jump)(bool wide, const RoundedJumpArguments&, size_t first, size_t last);
  void (*step)(bool wide, const StepArguments&, size_t first, size_t last);
  bool (*take)(bool wide, const TakeArguments&, size_t first, size_t last);
  void (*axpy)(bool wide, const AxpyArguments&, size_t first, size_t last);
  void (*scale)(bool wide, const ScaleArguments&, size_t first, size_t last);
  void (*adam)(bool wide, const AdamArguments&, size_t first, size_t last);
  void (*combine)(bool wide, const CombineArguments&, size_t first, size_t last);
  void (*gather)(bool wide, const GatherArguments&, size_t first, size_t last);
  void (*scatter)(bool wide, const ScatterArguments&, size_t first, size_t last);
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

/// The builds that this processor can run, the best one last; null after the end.
const CpuBuild* const* cpu_builds();

/// The CUDA twins: queued on `stream`, a cudaStream_t, and neither waited for nor looked at: who
/// queues them asks the runtime once (cuda_device.cu). In a build without CUDA none of them exists.
namespace cuda {
void queue(bool wide, const ExtrapolateArguments&, size_t size, void* stream);
void queue(bool wide, const JumpArguments&, size_t size, void* stream);
void queue(bool wide, const RoundArguments&, size_t size, void* stream);
void queue(bool wide, const RoundedJumpArguments&, size_t size, void* stream);
void queue(bool wide, const StepArguments&, size_t size, void* stream);
void queue(bool wide, const TakeArguments&, size_t size, void* stream);
void queue(bool wide, const AxpyArguments&, size_t size, void* stream);
void queue(bool wide, const ScaleArguments&, size_t size, void* stream);
void queue(bool wide, const AdamArguments&, size_t size, void* stream);
void queue(bool wide, const CombineArguments&, size_t size, void* stream);
void queue(bool wide, const GatherArguments&, size_t size, void* stream);
void queue(bool wide, const ScatterArguments&, size_t size, void* stream);
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
