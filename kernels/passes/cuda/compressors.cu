// The CUDA versions of codec_passes.hpp: tensors to bytes and back. Simple: one thread per group of
// 8 packed numbers, and byte by byte, because bytes may be unaligned. They are only queued, like
// those of ops.cu.
#include <cuda_runtime.h>

#include <cstring>

#include "kernels/passes/codec_passes.hpp"
#include "kernels/passes/cuda/cuda_grid.hpp"
#include "kernels/passes/passes.hpp"
#include "kernels/passes/elements_packing.hpp"

namespace grapevine::cuda {
namespace {

using codec::Kind;
using codec::Tensor;
using codec::TopKState;

/// Reads one number at any address.
template <class T>
__device__ T read_number(const uint8_t* from) {
  T value;
  memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
__device__ void write_number(T value, uint8_t* to) {
  memcpy(to, &value, sizeof value);
}

__device__ size_t my_number() { return blockIdx.x * size_t{kThreads} + threadIdx.x; }
__device__ size_t all_threads() { return gridDim.x * size_t{kThreads}; }

/// Calls body(i, n) for each group of n <= kGroup elements from i on.
template <class Body>
__device__ void for_groups(size_t size, const Body& body) {
  for (size_t i = my_number() * kGroup; i < size; i += all_threads() * kGroup)
    body(i, size - i < kGroup ? size - i : kGroup);
}

unsigned blocks_for_groups(size_t size) { return blocks_for((size + kGroup - 1) / kGroup); }

/// One group of a packed vector, level by level (packing_passes.hpp).
class PackedGroup {
 public:
  __device__ PackedGroup(uint8_t* bytes, int bits) : bytes_(bytes), bits_(bits) {}

  __device__ void put(int32_t level) {
    held_ |= static_cast<uint64_t>(level) << filled_;
    for (filled_ += bits_; filled_ >= 8; filled_ -= 8, held_ >>= 8)
      *bytes_++ = static_cast<uint8_t>(held_);
  }
  __device__ void end() {
    if (filled_ > 0) *bytes_ = static_cast<uint8_t>(held_);
  }

 private:
  uint8_t* bytes_;
  int bits_, filled_ = 0;
  uint64_t held_ = 0;
};

class UnpackedGroup {
 public:
  __device__ UnpackedGroup(const uint8_t* bytes, int bits) : bytes_(bytes), bits_(bits) {}

  __device__ int32_t take() {
    for (; filled_ < bits_; filled_ += 8)
      held_ |= static_cast<uint64_t>(*bytes_++) << filled_;
    const auto level = static_cast<int32_t>(held_ & ((uint64_t{1} << bits_) - 1));
    held_ >>= bits_;
    filled_ -= bits_;
    return level;
  }

 private:
  const uint8_t* bytes_;
  int bits_, filled_ = 0;
  uint64_t held_ = 0;
};

// --- draws, with the generator of random.hpp

struct PhiloxBlock {
  uint32_t words[4];
};

__device__ PhiloxBlock philox(const Draws& draws, uint32_t number) {
  PhiloxBlock c{{number, static_cast<uint32_t>(draws.index), draws.rank,
                 static_cast<uint32_t>(Purpose::compression) |
                     static_cast<uint32_t>(draws.index >> 32) << 8}};
  auto k0 = static_cast<uint32_t>(draws.seed);
  auto k1 = static_cast<uint32_t>(draws.seed >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c.words[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c.words[2];
    c = {{static_cast<uint32_t>(p1 >> 32) ^ c.words[1] ^ k0, static_cast<uint32_t>(p1),
          static_cast<uint32_t>(p0 >> 32) ^ c.words[3] ^ k1, static_cast<uint32_t>(p0)}};
  }
  return c;
}

/// The n-th Random::bits() of the stream.
__device__ uint64_t bits_of(const Draws& draws, uint64_t n) {
  const PhiloxBlock block = philox(draws, static_cast<uint32_t>(n / 2));
  const int low = n % 2 == 0 ? 2 : 0;
  return static_cast<uint64_t>(block.words[low + 1]) << 32 | block.words[low];
}

template <class T>
__global__ void draw(const Draws draws, T* out, size_t size) {
  for (size_t i = my_number(); i < size; i += all_threads())
    out[i] = T(-1 + 2 * (static_cast<double>(bits_of(draws, i) >> 11) * 0x1p-53));
}

/// The place drawn in the k-th of t.count equal parts of the tensor.
__device__ size_t place_of(const Tensor& t, const Draws& draws, size_t k) {
  const size_t first = k * t.size / t.count;
  const size_t length = (k + 1) * t.size / t.count - first;
  const uint64_t b = bits_of(draws, t.first_draw + k);
  return first + (((b >> 32) * length + ((b & 0xffffffff) * length >> 32)) >> 32);
}

// --- random-k

template <class T>
__global__ void pick(const Tensor t, const Draws draws, const T* v, uint8_t* bytes) {
  for (size_t k = my_number(); k < t.count; k += all_threads())
    write_number(v[place_of(t, draws, k)], bytes + k * sizeof(T));
}

template <class T>
__global__ void add_picked(const Tensor t, const Draws draws, T a, const uint8_t* bytes, T* y) {
  for (size_t k = my_number(); k < t.count; k += all_threads())
    y[place_of(t, draws, k)] += a * read_number<T>(bytes + k * sizeof(T));
}

// --- identity

template <class T>
__global__ void add_raw(T a, const uint8_t* bytes, T* y, size_t size) {
  for (size_t i = my_number(); i < size; i += all_threads())
    y[i] += a * read_number<T>(bytes + i * sizeof(T));
}

// --- sign

template <class T>
struct Absolute {
  using Loaded = T;
  const T* v;
  __device__ T load(size_t i) const { return v[i]; }
  __device__ double value(T number) const { return fabs(static_cast<double>(number)); }
};

/// The mean of |v|, from the sums of its blocks.
template <class T>
__global__ void write_mean(const double* partial, size_t blocks, size_t size, uint8_t* to) {
  const double total = total_of(partial, blocks);
  if (threadIdx.x == 0) write_number(T(total / static_cast<double>(size)), to);
}

template <class T>
__global__ void pack_signs(const T* v, size_t size, uint8_t* bytes) {
  for_groups(size, [=](size_t i, size_t n) {
    unsigned mask = 0;
    for (size_t k = 0; k < n; ++k)
      mask |= (signbit(v[i + k]) ? 1u : 0u) << k;
    bytes[i / kGroup] = static_cast<uint8_t>(mask);
  });
}

template <class T>
__global__ void add_signs(double a, const uint8_t* bytes, T* y, size_t size) {
  const T s = T(a * static_cast<double>(read_number<T>(bytes)));
  for (size_t i = my_number(); i < size; i += all_threads())
    y[i] += (bytes[sizeof(T) + i / kGroup] >> i % kGroup & 1) != 0 ? -s : s;
}

// --- quantise

/// The largest |v| that is not NaN. Non-negative floats have the order of their bits. `most` must
/// be 0 at the start.
template <class T>
__global__ void find_largest(const T* v, size_t size, unsigned long long* most) {
  __shared__ unsigned long long here;
  if (threadIdx.x == 0) here = 0;
  double mine = 0;
  for (size_t i = my_number(); i < size; i += all_threads()) {
    const double a = fabs(static_cast<double>(v[i]));
    mine = a > mine ? a : mine;
  }
  __syncthreads();
  atomicMax(&here, static_cast<unsigned long long>(__double_as_longlong(mine)));
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(most, here);
}

template <class T>
__global__ void quantise(int bits, const T* v, size_t size, const double* largest, uint8_t* bytes) {
  const double most = *largest;
  const double half = 0.5 * ((1 << bits) - 1);
  const T scale = T(most > 0 ? half / most : 0);
  const T shift = T(half + 0.5);
  const T top = T((1 << bits) - 1);
  if (my_number() == 0) write_number(T(most), bytes);
  for_groups(size, [=](size_t i, size_t n) {
    PackedGroup group(bytes + sizeof(T) + i / kGroup * bits, bits);
    for (size_t k = 0; k < n; ++k)
      group.put(level_of(v[i + k] * scale + shift, top));
    group.end();
  });
}

template <class T>
__global__ void dequantise(int bits, double a, const uint8_t* bytes, T* y, size_t size) {
  const auto most = static_cast<double>(read_number<T>(bytes));
  const T slope = T(2 * a * most / ((1 << bits) - 1));
  const T offset = T(-a * most);
  for_groups(size, [=](size_t i, size_t n) {
    UnpackedGroup group(bytes + sizeof(T) + i / kGroup * bits, bits);
    for (size_t k = 0; k < n; ++k)
      y[i + k] += slope * T(group.take()) + offset;
  });
}

// --- top-k: finds the least key that is kept, digit by digit; counts the kept keys of each block;
// the counts before a key give its place in the bytes

__device__ uint64_t key_of(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof v);
  bits &= 0x7fffffff;
  return bits > 0x7f800000 ? 0 : uint64_t{bits} + 1;
}
__device__ uint64_t key_of(double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof v);
  bits &= 0x7fffffffffffffff;
  return bits > 0x7ff0000000000000 ? 0 : bits + 1;
}

constexpr int kDigitBits = 8;
static_assert(TopKState::kDigits == kThreads);

__global__ void begin_search(TopKState* state, uint32_t count) {
  state->digits[threadIdx.x] = 0;
  if (threadIdx.x > 0) return;
  state->least = 0;
  state->ties = count;
}

/// Counts the digits at `shift` of the keys that agree with `least` in all higher digits.
template <class T>
__global__ void count_digits(const T* v, size_t size, int shift, TopKState* state) {
  __shared__ uint32_t digits[TopKState::kDigits];
  digits[threadIdx.x] = 0;
  __syncthreads();
  const uint64_t least = state->least;
  for (size_t i = my_number(); i < size; i += all_threads()) {
    const uint64_t key = key_of(v[i]);
    if ((key ^ least) >> shift >> kDigitBits == 0)
      atomicAdd(&digits[key >> shift & (TopKState::kDigits - 1)], 1u);
  }
  __syncthreads();
  if (digits[threadIdx.x] > 0) atomicAdd(&state->digits[threadIdx.x], digits[threadIdx.x]);
}

/// Sets this digit of the least key that is kept.
__global__ void choose_digit(int shift, TopKState* state) {
  uint32_t left = state->ties;
  uint64_t digit = TopKState::kDigits - 1;
  for (; left > state->digits[digit]; --digit)
    left -= state->digits[digit];
  state->least |= digit << shift;
  state->ties = left;
  for (size_t k = 0; k < TopKState::kDigits; ++k)
    state->digits[k] = 0;
}

/// counts[b] and counts[blocks + b]: the numbers of keys in block b above the least key and equal
/// to it.
template <class T>
__global__ void count_kept(const T* v, size_t size, size_t blocks, const TopKState* state,
                           uint32_t* counts) {
  __shared__ uint32_t above;
  __shared__ uint32_t equal;
  const uint64_t least = state->least;
  for (size_t b = blockIdx.x; b < blocks; b += gridDim.x) {
    if (threadIdx.x == 0) above = equal = 0;
    __syncthreads();
    const size_t last = min(size, (b + 1) * kReductionBlock);
    for (size_t i = b * kReductionBlock + threadIdx.x; i < last; i += kThreads) {
      const uint64_t key = key_of(v[i]);
      if (key > least) atomicAdd(&above, 1u);
      if (key == least) atomicAdd(&equal, 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      counts[b] = above;
      counts[blocks + b] = equal;
    }
    __syncthreads();
  }
}

/// Replaces each count by the sum of the counts before it.
__global__ void sum_before(size_t blocks, uint32_t* counts) {
  uint32_t sum = 0;
  counts += threadIdx.x * blocks;
  for (size_t b = 0; b < blocks; ++b) {
    const uint32_t count = counts[b];
    counts[b] = sum;
    sum += count;
  }
}

/// The sum of `mine` over the threads before this one; `all` gets the sum over all threads.
__device__ uint32_t sum_before_me(uint32_t mine, uint32_t& all) {
  __shared__ uint32_t sums[kThreads];
  const unsigned me = threadIdx.x;
  sums[me] = mine;
  for (unsigned distance = 1; distance < kThreads; distance *= 2) {
    __syncthreads();
    const uint32_t before = me >= distance ? sums[me - distance] : 0;
    __syncthreads();
    sums[me] += before;
  }
  __syncthreads();
  all = sums[kThreads - 1];
  const uint32_t before = sums[me] - mine;
  __syncthreads();  // all threads have read
  return before;
}

/// Writes places, then values.
template <class T>
__global__ void write_kept(const T* v, size_t size, size_t blocks, const TopKState* state,
                           const uint32_t* counts, size_t count, uint8_t* bytes) {
  constexpr int kEqual = 16;  // two counts of at most kThreads in one number
  const uint64_t least = state->least;
  const uint32_t ties = state->ties;
  for (size_t b = blockIdx.x; b < blocks; b += gridDim.x) {
    uint32_t above = counts[b];
    uint32_t equal = counts[blocks + b];
    const size_t last = min(size, (b + 1) * kReductionBlock);
    for (size_t first = b * kReductionBlock; first < last; first += kThreads) {
      const size_t i = first + threadIdx.x;
      const uint64_t key = i < last ? key_of(v[i]) : 0;
      const bool is_above = i < last && key > least;
      const bool is_equal = i < last && key == least;
      uint32_t all;
      const uint32_t before =
          sum_before_me((is_above ? 1u : 0u) | (is_equal ? 1u : 0u) << kEqual, all);
      const uint32_t equal_before = equal + (before >> kEqual);
      if (is_above || (is_equal && equal_before < ties)) {
        const size_t k = above + (before & 0xffff) + min(equal_before, ties);
        write_number(static_cast<uint32_t>(i), bytes + k * 4);
        write_number(v[i], bytes + count * 4 + k * sizeof(T));
      }
      above += all & 0xffff;
      equal += all >> kEqual;
    }
  }
}

template <class T>
__global__ void add_kept(size_t count, T a, const uint8_t* bytes, T* y, size_t size) {
  for (size_t k = my_number(); k < count; k += all_threads()) {
    const auto place = read_number<uint32_t>(bytes + k * 4);
    if (place < size) y[place] += a * read_number<T>(bytes + count * 4 + k * sizeof(T));
  }
}

// --- Moniqua

template <class T>
__global__ void encode_moniqua(T inverse, const Draws noise, const T* x, size_t size,
                               uint8_t* bytes) {
  for_groups(size, [=](size_t i, size_t n) {
    const PhiloxBlock drawn = philox(noise, static_cast<uint32_t>(i / kGroup));
    PackedGroup group(bytes + i / kGroup * kMoniquaBits, kMoniquaBits);
    for (size_t k = 0; k < n; ++k) {
      const auto number = static_cast<uint16_t>(drawn.words[k / 2] >> 16 * (k % 2));
      group.put(moniqua_level(x[i + k], number, inverse));
    }
    group.end();
  });
}

template <class T>
__global__ void add_moniqua(T inverse, T a, const T* x, const uint8_t* sent,
                            const uint8_t* received, T* y, size_t size) {
  for_groups(size, [=](size_t i, size_t n) {
    UnpackedGroup ours(sent + i / kGroup * kMoniquaBits, kMoniquaBits);
    UnpackedGroup theirs(received + i / kGroup * kMoniquaBits, kMoniquaBits);
    for (size_t k = 0; k < n; ++k) {
      const int32_t mine = ours.take();
      y[i + k] += a * moniqua_difference(x[i + k], mine, theirs.take(), inverse);
    }
  });
}

// --- launches

template <class T>
void queue_top_k(const Tensor& t, const T* v, void* scratch, uint8_t* bytes, cudaStream_t stream) {
  auto* state = static_cast<TopKState*>(scratch);
  auto* counts = reinterpret_cast<uint32_t*>(state + 1);
  const size_t blocks = (t.size + kReductionBlock - 1) / kReductionBlock;
  begin_search<<<1, kThreads, 0, stream>>>(state, static_cast<uint32_t>(t.count));
  for (int shift = 8 * sizeof(T) - kDigitBits; shift >= 0; shift -= kDigitBits) {
    count_digits<<<blocks_for(t.size), kThreads, 0, stream>>>(v, t.size, shift, state);
    choose_digit<<<1, 1, 0, stream>>>(shift, state);
  }
  count_kept<<<blocks_for(t.size), kThreads, 0, stream>>>(v, t.size, blocks, state, counts);
  sum_before<<<1, 2, 0, stream>>>(blocks, counts);
  write_kept<<<blocks_for(t.size), kThreads, 0, stream>>>(v, t.size, blocks, state, counts, t.count,
                                                          bytes);
}

template <class T>
void queue_encode(const EncodeArguments& a, cudaStream_t stream) {
  const Tensor& t = a.tensor;
  const T* v = in<T>(a.v);
  auto* bytes = out<uint8_t>(a.bytes);
  switch (t.kind) {
    case Kind::top_k: return queue_top_k(t, v, a.scratch, bytes, stream);
    case Kind::random_k:
      pick<<<blocks_for(t.count), kThreads, 0, stream>>>(t, a.places, v, bytes);
      return;
    case Kind::sign: {
      auto* partial = out<double>(a.scratch);
      const size_t blocks = queue_block_sums(Absolute<T>{v}, t.size, partial, stream);
      write_mean<T><<<1, kAddThreads, 0, stream>>>(partial, blocks, t.size, bytes);
      pack_signs<<<blocks_for_groups(t.size), kThreads, 0, stream>>>(v, t.size, bytes + sizeof(T));
      return;
    }
    case Kind::quantise: {
      cudaMemsetAsync(a.scratch, 0, sizeof(double), stream);
      find_largest<<<blocks_for(t.size), kThreads, 0, stream>>>(v, t.size,
                                                                out<unsigned long long>(a.scratch));
      quantise<<<blocks_for_groups(t.size), kThreads, 0, stream>>>(t.bits, v, t.size,
                                                                   in<double>(a.scratch), bytes);
      return;
    }
    case Kind::identity:
    case Kind::low_rank: return;  // several passes (tensor_codec.cpp)
  }
}

template <class T>
void queue_decode(const DecodeArguments& a, cudaStream_t stream) {
  const Tensor& t = a.tensor;
  const auto* bytes = in<uint8_t>(a.bytes);
  T* y = out<T>(a.y);
  const unsigned blocks = blocks_for(t.size);
  const unsigned few = blocks_for(t.count);
  switch (t.kind) {
    case Kind::identity: add_raw<<<blocks, kThreads, 0, stream>>>(T(a.a), bytes, y, t.size); return;
    case Kind::top_k:
      add_kept<<<few, kThreads, 0, stream>>>(t.count, T(a.a), bytes, y, t.size);
      return;
    case Kind::random_k:
      add_picked<<<few, kThreads, 0, stream>>>(t, a.places, T(a.a), bytes, y);
      return;
    case Kind::sign: add_signs<<<blocks, kThreads, 0, stream>>>(a.a, bytes, y, t.size); return;
    case Kind::quantise:
      dequantise<<<blocks_for_groups(t.size), kThreads, 0, stream>>>(t.bits, a.a, bytes, y, t.size);
      return;
    case Kind::low_rank: return;  // several passes (tensor_codec.cpp)
  }
}

template <class T>
void queue_moniqua(const MoniquaEncodeArguments& a, size_t size, cudaStream_t stream) {
  encode_moniqua<<<blocks_for_groups(size), kThreads, 0, stream>>>(
      T(1 / (6 * a.theta)), a.noise, in<T>(a.x), size, out<uint8_t>(a.bytes));
}

template <class T>
void queue_moniqua(const MoniquaAddArguments& a, size_t size, cudaStream_t stream) {
  add_moniqua<<<blocks_for_groups(size), kThreads, 0, stream>>>(
      T(1 / (6 * a.theta)), T(a.a * 6 * a.theta), in<T>(a.x), in<uint8_t>(a.sent),
      in<uint8_t>(a.received), out<T>(a.y), size);
}

}  // namespace

void queue(bool wide, const EncodeArguments& a, size_t, void* stream) {
  wide ? queue_encode<double>(a, native(stream)) : queue_encode<float>(a, native(stream));
}

void queue(bool wide, const DecodeArguments& a, size_t, void* stream) {
  wide ? queue_decode<double>(a, native(stream)) : queue_decode<float>(a, native(stream));
}

void queue(bool wide, const DrawArguments& a, size_t size, void* stream) {
  const unsigned blocks = blocks_for(size);
  if (wide) {
    draw<<<blocks, kThreads, 0, native(stream)>>>(a.draws, out<double>(a.out), size);
  } else {
    draw<<<blocks, kThreads, 0, native(stream)>>>(a.draws, out<float>(a.out), size);
  }
}

void queue(bool wide, const MoniquaEncodeArguments& a, size_t size, void* stream) {
  wide ? queue_moniqua<double>(a, size, native(stream))
       : queue_moniqua<float>(a, size, native(stream));
}

void queue(bool wide, const MoniquaAddArguments& a, size_t size, void* stream) {
  wide ? queue_moniqua<double>(a, size, native(stream))
       : queue_moniqua<float>(a, size, native(stream));
}

}  // namespace grapevine::cuda
