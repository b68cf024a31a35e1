#include "tests/bench/gpu_facts/tools.hpp"
#include "tests/bench/gpu_facts/work.hpp"

namespace grapevine::facts {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned long long kLongest = 20'000'000'000;  // ns

__device__ unsigned long long now() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__device__ size_t first() { return blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; }
__device__ size_t stride() { return static_cast<size_t>(gridDim.x) * blockDim.x; }

__global__ void spin_kernel(unsigned long long ns) {
  const unsigned long long end = now() + ns;
  while (now() < end) {
  }
}

__global__ void nothing_kernel() {}

__global__ void stand_kernel(const volatile int* flag) {
  const unsigned long long end = now() + kLongest;
  while (*flag == 0 && now() < end) {
  }
}

__global__ void grind_kernel(int rounds, float* result) {
  float value = static_cast<float>(threadIdx.x);
  for (int r = 0; r < rounds; ++r)
    value = value * 0.999f + 0.5f;
  if (value == -1) *result = value;  // never; else there would be nothing to compute
}

__global__ void wild_kernel(int* nowhere) { *nowhere = 1; }

__global__ void fill_kernel(unsigned* words, size_t count, unsigned value) {
  for (size_t i = first(); i < count; i += stride())
    words[i] = value;
}

__global__ void others_kernel(const unsigned* words, size_t count, unsigned value,
                              unsigned* others) {
  for (size_t i = first(); i < count; i += stride())
    if (words[i] != value) atomicAdd(others, 1U);
}

__global__ void watch_kernel(const volatile unsigned* words, size_t count, unsigned value,
                             const volatile int* flag, unsigned* others) {
  __shared__ bool over;
  const unsigned long long end = now() + kLongest;
  while (true) {
    if (threadIdx.x == 0) over = *flag != 0 || now() > end;
    __syncthreads();
    if (over) return;
    for (size_t i = first(); i < count; i += stride())
      if (words[i] != value) atomicAdd(others, 1U);
    __syncthreads();  // nobody reads `over` any more
  }
}

__device__ void jump_number(const Jump& j, float sent, float received, float& x, float& x_tilde) {
  const float m = sent - received;
  const float d = j.mixing * (x_tilde - x);
  x += d - j.alpha * m;
  x_tilde -= d + j.alpha_tilde * m;
}

__device__ void jump_all(const Jump& j, size_t size) {
  for (size_t i = first(); i < size; i += stride()) {
    const float4 sent = j.sent[i], received = j.received[i];
    float4 x = j.x[i], x_tilde = j.x_tilde[i];
    jump_number(j, sent.x, received.x, x.x, x_tilde.x);
    jump_number(j, sent.y, received.y, x.y, x_tilde.y);
    jump_number(j, sent.z, received.z, x.z, x_tilde.z);
    jump_number(j, sent.w, received.w, x.w, x_tilde.w);
    j.x[i] = x;
    j.x_tilde[i] = x_tilde;
  }
}

__global__ void jump_kernel(const __grid_constant__ Jump j, size_t size) { jump_all(j, size); }
__global__ void table_kernel(const __grid_constant__ JumpTable table, size_t size) {
  jump_all(table.entry[blockIdx.y], size);
}

}  // namespace

void spin(cudaStream_t stream, double seconds, unsigned blocks) {
  spin_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<unsigned long long>(1e9 * seconds));
  must(cudaGetLastError());
}

void nothing(cudaStream_t stream) {
  nothing_kernel<<<1, 1, 0, stream>>>();
  must(cudaGetLastError());
}

void stand_until(cudaStream_t stream, const int* pinned) {
  stand_kernel<<<1, 1, 0, stream>>>(pinned);
  must(cudaGetLastError());
}

void grind(cudaStream_t stream, unsigned blocks, int rounds) {
  grind_kernel<<<blocks, kThreads, 0, stream>>>(rounds, nullptr);
  must(cudaGetLastError());
}

void write_wildly(cudaStream_t stream) {
  wild_kernel<<<1, 1, 0, stream>>>(reinterpret_cast<int*>(8));
  must(cudaGetLastError());
}

void fill(cudaStream_t stream, unsigned* words, size_t count, unsigned value) {
  fill_kernel<<<1024, kThreads, 0, stream>>>(words, count, value);
  must(cudaGetLastError());
}

unsigned others(cudaStream_t stream, const unsigned* words, size_t count, unsigned value) {
  auto* const sum = static_cast<unsigned*>(device_memory(sizeof(unsigned)));
  unsigned result = 0;
  others_kernel<<<1024, kThreads, 0, stream>>>(words, count, value, sum);
  must(cudaGetLastError());
  must(cudaStreamSynchronize(stream));
  must(cudaMemcpy(&result, sum, sizeof result, cudaMemcpyDeviceToHost));
  must(cudaFree(sum));
  return result;
}

void watch(cudaStream_t stream, const unsigned* words, size_t count, unsigned value,
           const int* pinned, unsigned* others) {
  watch_kernel<<<256, kThreads, 0, stream>>>(words, count, value, pinned, others);
  must(cudaGetLastError());
}

void jump(cudaStream_t stream, const Jump& j, size_t size, unsigned blocks) {
  jump_kernel<<<blocks, kThreads, 0, stream>>>(j, size);
  must(cudaGetLastError());
}

void jump(cudaStream_t stream, const JumpTable& table, int count, size_t size, unsigned blocks) {
  table_kernel<<<dim3(blocks, static_cast<unsigned>(count)), kThreads, 0, stream>>>(table, size);
  must(cudaGetLastError());
}

}  // namespace grapevine::facts
