// The CUDA versions: elementwise passes in grid-stride loops. They are only queued: no call here
// waits, allocates or checks for an error (passes.hpp).
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/passes/cuda/cuda_grid.hpp"
#include "kernels/passes/passes.hpp"

namespace grapevine::cuda {
namespace {

__global__ void set(double* result, double value) { *result = value; }

/// Like run_pass, for a pass that returns whether its elements are finite: if not, `result` becomes
/// 0.
template <int N, class Pass>
__global__ void run_taking(const Pass pass, size_t head, size_t packs, size_t size,
                           double* result) {
  const size_t me = blockIdx.x * size_t{kThreads} + threadIdx.x;
  const size_t all = gridDim.x * size_t{kThreads};
  bool finite = true;
  for (size_t i = me; i < packs; i += all) finite &= pass.template at<N>(head + i * N);
  const size_t tail = head + packs * N;
  for (size_t i = me; i < head; i += all) finite &= pass.template at<1>(i);
  for (size_t i = tail + me; i < size; i += all) finite &= pass.template at<1>(i);
  if (!finite) *result = 0;
}

constexpr size_t kPackBytes = 16;

/// The distance in elements of a call's pointers from the last aligned pack, if it is equal for
/// all. A pack has 16 bytes; a pack of a bf16 vector has as many elements.
struct Alignment {
  bool known = false, common = true;
  size_t offset = 0;

  void see(const void* p, size_t pack_bytes, size_t element_bytes) {
    if (p == nullptr) return;
    const size_t here = reinterpret_cast<uintptr_t>(p) % pack_bytes / element_bytes;
    common = common && (!known || here == offset);
    known = true;
    offset = here;
  }
};

/// Only vectors as long as the pass count: others are not read in packs.
template <class Arguments>
Alignment alignment_of(Arguments a, size_t size, size_t width) {
  Alignment alignment;
  a.each(size, width, [&](auto* vector, size_t bytes, Access::Mode) {
    for (const size_t element : {width, sizeof(BFloat16)}) {
      if (bytes == size * element) alignment.see(vector, kPackBytes / width * element, element);
    }
  });
  return alignment;
}

/// Calls start(N, head, packs): packs of N if every pointer allows it, else of one.
template <class T, class Start>
void in_packs(const Alignment& alignment, size_t size, const Start& start) {
  constexpr int n = kPackBytes / sizeof(T);
  if (alignment.common && size >= 2 * n) {
    const size_t head = (n - alignment.offset) % n;
    start(std::integral_constant<int, n>{}, head, (size - head) / n);
  } else {
    start(std::integral_constant<int, 1>{}, size_t{0}, size);
  }
}

template <class Pass, class T>
void queue_as(const Pass& pass, const Alignment& alignment, size_t size, cudaStream_t stream) {
  in_packs<T>(alignment, size, [&](auto n, size_t head, size_t packs) {
    run_pass<decltype(n)::value>
        <<<blocks_for(packs), kThreads, 0, stream>>>(pass, head, packs, size);
  });
}

template <class Arguments>
void queue_elements(bool wide, const Arguments& arguments, size_t size, void* stream) {
  if (size == 0) return;
  with_pass(arguments, wide, [&](const auto& pass) {
    using Pass = std::remove_cvref_t<decltype(pass)>;
    using T = typename Pass::Element;
    queue_as<Pass, T>(pass, alignment_of(arguments, size, sizeof(T)), size, native(stream));
  });
}

template <class T>
__global__ void look_for_others(const T* x, size_t size, double* result) {
  const size_t all = gridDim.x * size_t{kThreads};
  bool finite = true;
  size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x;
  for (; i + (kAhead - 1) * all < size; i += kAhead * all) {
    T seen[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) seen[k] = x[i + k * all];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) finite &= seen[k] - seen[k] == T(0);
  }
  for (; i < size; i += all) finite &= x[i] - x[i] == T(0);
  if (!finite) *result = 0;
}

template <class T>
__global__ void fill_all(T* out, T a, size_t size) {
  const size_t all = gridDim.x * size_t{kThreads};
  for (size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x; i < size; i += all) out[i] = a;
}

template <class T>
__global__ void add_all(const T* x, double* sum, size_t size) {
  const size_t all = gridDim.x * size_t{kThreads};
  for (size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x; i < size; i += all)
    sum[i] += static_cast<double>(x[i]);
}

template <class T>
__global__ void tell(const T* x, double* result) {
  *result = static_cast<double>(*x);
}

// --- sums with the bits of the CPU's

template <class T> struct Pair {
  T x, y;
};

template <class T> struct Product {
  using Loaded = Pair<T>;
  const T *x, *y;
  __device__ Loaded load(size_t i) const { return {x[i], y[i]}; }
  __device__ double value(const Loaded& at) const {
    return static_cast<double>(at.x) * static_cast<double>(at.y);
  }
};

template <class T> struct SquaredDifference {
  using Loaded = Pair<T>;
  const T *x, *y;
  __device__ Loaded load(size_t i) const { return {x[i], y[i]}; }
  __device__ double value(const Loaded& at) const {
    const double d = static_cast<double>(widened(at.x)) - static_cast<double>(widened(at.y));
    return d * d;
  }
};

__global__ void add_blocks(const double* partial, size_t blocks, double* result) {
  const double total = total_of(partial, blocks);
  if (threadIdx.x == 0) *result = total;
}

template <class Term>
void queue_sum(const Term& term, const SumArguments& a, size_t size, void* stream) {
  const size_t blocks = queue_block_sums(term, size, out<double>(a.blocks), native(stream));
  add_blocks<<<1, kAddThreads, 0, native(stream)>>>(out<double>(a.blocks), blocks,
                                                    out<double>(a.result));
}

template <class T>
void queue_sum_of(const SumArguments& a, size_t size, void* stream) {
  if (a.rounded) {
    const SquaredDifference<BFloat16> term{in<BFloat16>(a.x), in<BFloat16>(a.y)};
    return queue_sum(term, a, size, stream);
  }
  const T* x = in<T>(a.x);
  const T* y = in<T>(a.y);
  if (a.distance) return queue_sum(SquaredDifference<T>{x, y}, a, size, stream);
  queue_sum(Product<T>{x, y}, a, size, stream);
}

template <class... Arguments>
constexpr Slots<Launch, Arguments...> launches_of(const Slots<Launch, Arguments...>&) {
  return {{queue_elements<Arguments>}...};
}

}  // namespace

const ElementwiseSlots<Launch> kElementwise = {launches_of(RuleSlots<Launch>{}),
                                               launches_of(VectorSlots<Launch>{})};

void queue(bool wide, const TakeArguments& a, size_t size, void* stream) {
  auto* result = out<double>(a.finite);
  set<<<1, 1, 0, native(stream)>>>(result, 1);
  if (size == 0) return;
  with_pass(a, wide, [&](const auto& pass) {
    using T = typename std::remove_cvref_t<decltype(pass)>::Element;
    in_packs<T>(alignment_of(a, size, sizeof(T)), size, [&](auto n, size_t head, size_t packs) {
      run_taking<decltype(n)::value>
          <<<blocks_for(packs), kThreads, 0, native(stream)>>>(pass, head, packs, size, result);
    });
  });
}

void queue(bool wide, const FillArguments& a, size_t size, void* stream) {
  if (size == 0) return;
  const unsigned blocks = blocks_for(size);
  if (wide) {
    fill_all<<<blocks, kThreads, 0, native(stream)>>>(out<double>(a.out), a.a, size);
  } else {
    fill_all<<<blocks, kThreads, 0, native(stream)>>>(out<float>(a.out), static_cast<float>(a.a),
                                                      size);
  }
}

void queue(bool wide, const AccumulateArguments& a, size_t size, void* stream) {
  if (size == 0) return;
  const unsigned blocks = blocks_for(size);
  auto* sum = out<double>(a.sum);
  if (wide) {
    add_all<<<blocks, kThreads, 0, native(stream)>>>(in<double>(a.x), sum, size);
  } else {
    add_all<<<blocks, kThreads, 0, native(stream)>>>(in<float>(a.x), sum, size);
  }
}

void queue(bool wide, const NumberArguments& a, size_t, void* stream) {
  auto* result = out<double>(a.result);
  if (wide) {
    tell<<<1, 1, 0, native(stream)>>>(in<double>(a.x), result);
  } else {
    tell<<<1, 1, 0, native(stream)>>>(in<float>(a.x), result);
  }
}

void queue(bool wide, const SumArguments& a, size_t size, void* stream) {
  wide ? queue_sum_of<double>(a, size, stream) : queue_sum_of<float>(a, size, stream);
}

void queue(bool wide, const FiniteArguments& a, size_t size, void* stream) {
  auto* result = out<double>(a.result);
  set<<<1, 1, 0, native(stream)>>>(result, 1);
  if (size == 0) return;
  const unsigned blocks = blocks_for(size);
  if (wide) {
    look_for_others<<<blocks, kThreads, 0, native(stream)>>>(in<double>(a.x), size, result);
  } else {
    look_for_others<<<blocks, kThreads, 0, native(stream)>>>(in<float>(a.x), size, result);
  }
}

}  // namespace grapevine::cuda
