// Work for a GPU: what the questions keep it busy with, each queued on a stream.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>

namespace grapevine::facts {

/// Stands there for so long by the GPU's own clock, on `blocks` blocks of 256 threads.
void spin(cudaStream_t, double seconds, unsigned blocks = 1);
void nothing(cudaStream_t);
/// Stands there until the host writes to pinned memory, for 20 s at most.
void stand_until(cudaStream_t, const int* pinned);
/// A number of multiplications that takes longer where somebody else has the GPU meanwhile.
void grind(cudaStream_t, unsigned blocks, int rounds);
/// Writes to an address that nobody has.
void write_wildly(cudaStream_t);

void fill(cudaStream_t, unsigned* words, size_t count, unsigned value);
/// Reads it all, and waits: how many words are not `value`.
unsigned others(cudaStream_t, const unsigned* words, size_t count, unsigned value);
/// Reads it again and again until the host writes to pinned memory, for 20 s at most; adds to
/// `others`, in device memory, the words that were not `value`.
void watch(cudaStream_t, const unsigned* words, size_t count, unsigned value, const int* pinned,
           unsigned* others);

/// The jump of x and x~ at the end of an exchange, four numbers at a time; size in such fours.
struct Jump {
  const float4* sent;
  const float4* received;
  float4* x;
  float4* x_tilde;
  float mixing, alpha, alpha_tilde;
};
void jump(cudaStream_t, const Jump&, size_t size, unsigned blocks);

inline constexpr int kTable = 64;  // 3.5 KiB: a kernel takes 4 KiB of parameters
struct JumpTable {
  Jump entry[kTable];
};
/// The first `count` of them in one launch, each on `blocks` blocks.
void jump(cudaStream_t, const JumpTable&, int count, size_t size, unsigned blocks);

}  // namespace grapevine::facts
