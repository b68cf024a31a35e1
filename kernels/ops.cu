// The CUDA twins: the passes of elements.hpp in grid-stride loops.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda_check.cuh"
#include "kernels/dispatch.hpp"

namespace grapevine::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerProcessor = 8;  // 2048 threads: a full multiprocessor

cudaStream_t queue(void* stream) { return static_cast<cudaStream_t>(stream); }

int processors() {
  int device = 0;
  int count = 0;
  GV_CUDA(cudaGetDevice(&device));
  GV_CUDA(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

unsigned blocks_for(size_t threads) {
  const size_t wanted = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(
      std::clamp<size_t>(wanted, 1, static_cast<size_t>(processors()) * kBlocksPerProcessor));
}

/// Elements [head, head + N * packs) go N at a time, the few before and after them one at a time.
template <int N, class Pass>
__global__ void run_pass(const Pass pass, size_t head, size_t packs, size_t size) {
  const size_t me = blockIdx.x * size_t{kThreads} + threadIdx.x;
  const size_t all = gridDim.x * size_t{kThreads};
  for (size_t i = me; i < packs; i += all) pass.template at<N>(head + i * N);
  const size_t tail = head + packs * N;
  for (size_t i = me; i < head; i += all) pass.template at<1>(i);
  for (size_t i = tail + me; i < size; i += all) pass.template at<1>(i);
}

/// As run_pass, of a pass that says whether what it saw is finite: `others` becomes 1 where not.
template <int N, class Pass>
__global__ void run_taking(const Pass pass, size_t head, size_t packs, size_t size, int* others) {
  const size_t me = blockIdx.x * size_t{kThreads} + threadIdx.x;
  const size_t all = gridDim.x * size_t{kThreads};
  bool finite = true;
  for (size_t i = me; i < packs; i += all) finite &= pass.template at<N>(head + i * N);
  const size_t tail = head + packs * N;
  for (size_t i = me; i < head; i += all) finite &= pass.template at<1>(i);
  for (size_t i = tail + me; i < size; i += all) finite &= pass.template at<1>(i);
  if (!finite) *others = 1;
}

constexpr size_t kPackBytes = 16;

/// How far the pointers of a call are from a 16-byte boundary, if all are equally far.
struct Alignment {
  bool known = false, common = true;
  size_t offset_bytes = 0;

  void see(const void* p) {
    if (p == nullptr) return;
    const size_t offset = reinterpret_cast<uintptr_t>(p) % kPackBytes;
    common = common && (!known || offset == offset_bytes);
    known = true;
    offset_bytes = offset;
  }
};

template <class... Pointers> Alignment alignment_of(Pointers... pointers) {
  Alignment alignment;
  (alignment.see(pointers), ...);
  return alignment;
}

/// Calls start(N, head, packs): packs of N where every pointer allows it, else of one.
template <class T, class Start>
void in_packs(const Alignment& alignment, size_t size, const Start& start) {
  constexpr int n = kPackBytes / sizeof(T);
  if (alignment.common && size >= 2 * n) {
    const size_t head = (kPackBytes - alignment.offset_bytes) % kPackBytes / sizeof(T);
    start(std::integral_constant<int, n>{}, head, (size - head) / n);
  } else {
    start(std::integral_constant<int, 1>{}, size_t{0}, size);
  }
  GV_CUDA(cudaGetLastError());
}

template <class Pass, class T>
void launch_as(const Pass& pass, const Alignment& alignment, size_t size, cudaStream_t stream) {
  in_packs<T>(alignment, size, [&](auto n, size_t head, size_t packs) {
    run_pass<decltype(n)::value>
        <<<blocks_for(packs), kThreads, 0, stream>>>(pass, head, packs, size);
  });
}

template <class Arguments>
void launch(bool wide, const Arguments& arguments, const Alignment& alignment, size_t size,
            void* stream) {
  if (size == 0) return;
  with_pass(arguments, wide, [&](const auto& pass) {
    using Pass = std::remove_cvref_t<decltype(pass)>;
    launch_as<Pass, typename Pass::Element>(pass, alignment, size, queue(stream));
  });
}

/// Folds the block's values in a fixed tree; the sum is in thread 0.
__device__ double block_sum(double value) {
  __shared__ double lanes[kThreads];
  lanes[threadIdx.x] = value;
  for (int width = kThreads / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) lanes[threadIdx.x] += lanes[threadIdx.x + width];
  }
  return lanes[0];
}

constexpr unsigned kReductionBlocks = 1024;  // fixed, so that a sum does not depend on the GPU

template <class T> __global__ void count_others(const T* x, size_t size, double* partial) {
  double others = 0;
  const size_t all = gridDim.x * size_t{kThreads};
  for (size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x; i < size; i += all) {
    if (!(x[i] - x[i] == T(0))) others = 1;
  }
  others = block_sum(others);
  if (threadIdx.x == 0) partial[blockIdx.x] = others;
}

__global__ void add_partial(const double* partial, double* result) {
  double sum = 0;
  for (unsigned i = threadIdx.x; i < kReductionBlocks; i += kThreads) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *result = sum;
}

/// first(partial) fills one number a block; their sum comes back.
template <class First> double reduced(void* stream, const First& first) {
  double* partial = nullptr;
  GV_CUDA(cudaMallocAsync(&partial, (kReductionBlocks + 1) * sizeof(double), queue(stream)));
  first(partial);
  add_partial<<<1, kThreads, 0, queue(stream)>>>(partial, partial + kReductionBlocks);
  GV_CUDA(cudaGetLastError());
  double result = 0;
  GV_CUDA(cudaMemcpyAsync(&result, partial + kReductionBlocks, sizeof(double),
                          cudaMemcpyDeviceToHost, queue(stream)));
  GV_CUDA(cudaFreeAsync(partial, queue(stream)));
  GV_CUDA(cudaStreamSynchronize(queue(stream)));
  return result;
}

// --- sums with the bits of the CPU's

template <class T> struct Product {
  const T *x, *y;
  __device__ double operator()(size_t i) const {
    return static_cast<double>(x[i]) * static_cast<double>(y[i]);
  }
};

template <class T> struct SquaredDifference {
  const T *x, *y;
  __device__ double operator()(size_t i) const {
    const double d = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    return d * d;
  }
};

/// Blocks of kReductionBlock elements, each by as many neighbouring threads as it has lanes.
template <class Term>
__global__ void sum_blocks(const Term term, size_t size, size_t blocks, double* partial) {
  constexpr unsigned kLanes = kReductionLanes;
  const unsigned lane = threadIdx.x % kLanes;
  const unsigned mates = ((1u << kLanes) - 1) << (threadIdx.x % warpSize - lane);
  const size_t all = gridDim.x * size_t{kThreads} / kLanes;
  size_t block = (blockIdx.x * size_t{kThreads} + threadIdx.x) / kLanes;
  for (; block < blocks; block += all) {
    const size_t first = block * kReductionBlock;
    const size_t last = min(size, first + kReductionBlock);
    double sum = 0;
    for (size_t i = first + lane; i < last; i += kLanes) sum += term(i);
    for (unsigned width = kLanes / 2; width > 0; width /= 2) {
      sum += __shfl_down_sync(mates, sum, width, kLanes);
    }
    if (lane == 0) partial[block] = sum;
  }
}

__global__ void add_in_order(const double* partial, size_t blocks, double* result) {
  double sum = 0;
  for (size_t k = 0; k < blocks; ++k) sum += partial[k];
  *result = sum;
}

template <class Term> double ordered_sum(const Term& term, size_t size, void* stream) {
  const size_t blocks = (size + kReductionBlock - 1) / kReductionBlock;
  const Scratch scratch((blocks + 1) * sizeof(double), stream);
  auto* partial = static_cast<double*>(scratch.data());
  if (blocks > 0) {
    sum_blocks<<<blocks_for(blocks * kReductionLanes), kThreads, 0, queue(stream)>>>(
        term, size, blocks, partial);
    GV_CUDA(cudaGetLastError());
  }
  add_in_order<<<1, 1, 0, queue(stream)>>>(partial, blocks, partial + blocks);
  GV_CUDA(cudaGetLastError());
  double result = 0;
  GV_CUDA(cudaMemcpyAsync(&result, partial + blocks, sizeof(double), cudaMemcpyDeviceToHost,
                          queue(stream)));
  GV_CUDA(cudaStreamSynchronize(queue(stream)));
  return result;
}

}  // namespace

void copy(const void* x, void* out, size_t bytes, void* stream) {
  if (bytes == 0) return;
  GV_CUDA(cudaMemcpyAsync(out, x, bytes, cudaMemcpyDeviceToDevice, queue(stream)));
}

void extrapolate(bool wide, const ExtrapolateArguments& a, size_t size, void* stream) {
  launch(wide, a, alignment_of(a.x, a.x_tilde, a.out), size, stream);
}

void jump(bool wide, const JumpArguments& a, size_t size, void* stream) {
  launch(wide, a, alignment_of(a.sent, a.received, a.x, a.x_tilde), size, stream);
}

void step(bool wide, const StepArguments& a, size_t size, void* stream) {
  launch(wide, a, alignment_of(a.g, a.v, a.x, a.x_tilde, a.copy), size, stream);
}

bool take(bool wide, const TakeArguments& a, size_t size, void* stream) {
  if (size == 0) return true;
  const cudaStream_t on = queue(stream);
  int* others = nullptr;
  int seen = 0;
  GV_CUDA(cudaMallocAsync(&others, sizeof(int), on));
  GV_CUDA(cudaMemsetAsync(others, 0, sizeof(int), on));
  with_pass(a, wide, [&](const auto& pass) {
    using T = typename std::remove_cvref_t<decltype(pass)>::Element;
    const Alignment alignment = alignment_of(a.front, a.base, a.x, a.x_tilde);
    in_packs<T>(alignment, size, [&](auto n, size_t head, size_t packs) {
      run_taking<decltype(n)::value>
          <<<blocks_for(packs), kThreads, 0, on>>>(pass, head, packs, size, others);
    });
  });
  GV_CUDA(cudaMemcpyAsync(&seen, others, sizeof(int), cudaMemcpyDeviceToHost, on));
  GV_CUDA(cudaFreeAsync(others, on));
  GV_CUDA(cudaStreamSynchronize(on));
  return seen == 0;
}

void axpy(bool wide, const AxpyArguments& a, size_t size, void* stream) {
  launch(wide, a, alignment_of(a.x, a.y), size, stream);
}

void scale(bool wide, const ScaleArguments& a, size_t size, void* stream) {
  launch(wide, a, alignment_of(a.x, a.y), size, stream);
}

void adam(bool wide, const AdamArguments& a, size_t size, void* stream) {
  launch(wide, a, alignment_of(a.g, a.m, a.v, a.x, a.x_tilde, a.copy), size, stream);
}

void combine(bool wide, const CombineArguments& a, size_t size, void* stream) {
  Alignment alignment = alignment_of(a.base, a.out);
  for (int k = 0; k < a.count; ++k) alignment.see(a.x[k]);
  launch(wide, a, alignment, size, stream);
}

void gather(bool wide, const GatherArguments& a, size_t size, void* stream) {
  launch(wide, a, alignment_of(a.out), size, stream);
}

void scatter(bool wide, const ScatterArguments& a, size_t size, void* stream) {
  launch(wide, a, alignment_of(a.x), size, stream);
}

Scratch::Scratch(size_t bytes, void* stream) : stream_(stream) {
  GV_CUDA(cudaMallocAsync(&data_, bytes, queue(stream)));
}

Scratch::~Scratch() { GV_CUDA(cudaFreeAsync(data_, queue(stream_))); }

double dot(bool wide, const void* x, const void* y, size_t size, void* stream) {
  return wide ? ordered_sum(Product<double>{in<double>(x), in<double>(y)}, size, stream)
              : ordered_sum(Product<float>{in<float>(x), in<float>(y)}, size, stream);
}

double distance(bool wide, const void* x, const void* y, size_t size, void* stream) {
  return wide ? ordered_sum(SquaredDifference<double>{in<double>(x), in<double>(y)}, size, stream)
              : ordered_sum(SquaredDifference<float>{in<float>(x), in<float>(y)}, size, stream);
}

bool finite(bool wide, const void* x, size_t size, void* stream) {
  return reduced(stream, [&](double* partial) {
    if (wide) {
      count_others<<<kReductionBlocks, kThreads, 0, queue(stream)>>>(in<double>(x), size, partial);
    } else {
      count_others<<<kReductionBlocks, kThreads, 0, queue(stream)>>>(in<float>(x), size, partial);
    }
  }) == 0;
}

}  // namespace grapevine::cuda
