// The implementation of compressor.hpp and moniqua.hpp on a device: the passes that turn one tensor
// into its bytes and back, the memory that each uses, and both versions.
//
// Encoded bytes may have any address, so neither version reads a number of theirs at once. A pass
// finds its sums, its threshold and its places on the device itself: nothing waits for the host.
#pragma once
#include "kernels/base/random.hpp"
#include "kernels/device/execution.hpp"
#include "kernels/passes/moniqua.hpp"
#include "kernels/passes/passes.hpp"

namespace grapevine {
namespace codec {

enum class Kind { identity, top_k, random_k, sign, low_rank, quantise };

struct Tensor {
  Kind kind;  // also `identity` if a low-rank compressor sends it raw
  size_t offset = 0, size = 0, rows = 1, columns = 0;
  size_t count = 0;         // top-k, random-k: values to send; low-rank: the rank
  int bits = 0;             // quantise
  uint64_t first_draw = 0;  // random-k: draws that the tensors before this one use
  size_t at_byte = 0, bytes = 0;
};

/// The state of top-k's CUDA version between its kernels; two counts for each block of the
/// reduction follow it. A key orders numbers as |v| does, NaN below all; its digits have 8 bits.
struct TopKState {
  static constexpr size_t kDigits = 256;
  uint64_t least;  // the least key that is kept, from the highest digit down
  uint32_t ties;   // how many values of that key are kept: the first ones
  uint32_t unused;
  uint32_t digits[kDigits];
};

/// Memory that a tensor needs on a device in addition to its vector and its bytes.
inline size_t scratch_bytes_of(const Tensor& t, size_t width) {
  const size_t blocks = (t.size + kReductionBlock - 1) / kReductionBlock;
  switch (t.kind) {
    case Kind::top_k: return sizeof(TopKState) + blocks * 2 * sizeof(uint32_t);
    case Kind::sign: return blocks * sizeof(double);
    case Kind::quantise: return sizeof(double);
    case Kind::low_rank: return (t.rows + t.columns) * t.count * width;
    case Kind::identity:
    case Kind::random_k: break;
  }
  return 0;
}

}  // namespace codec

/// The stream Random(seed, rank, Purpose::compression, index).
struct Draws {
  uint64_t seed = 0;
  uint32_t rank = 0;
  uint64_t index = 0;
};

/// bytes = C(v), for each kind that is one pass: all but `identity`, which is a copy, and
/// `low_rank`.
struct EncodeArguments {
  codec::Tensor tensor;
  Draws places;
  const void* v;
  void *scratch, *bytes;  // scratch: null on the CPU

  void each(size_t size, size_t width, const auto& see) {
    see(v, size * width, Access::reads);
    see(scratch, codec::scratch_bytes_of(tensor, width), Access::updates);
    see(bytes, tensor.bytes, Access::writes);
  }
};

/// y += a C(v), for each kind but `low_rank`.
struct DecodeArguments {
  codec::Tensor tensor;
  Draws places;
  double a;
  const void* bytes;
  void* y;

  void each(size_t size, size_t width, const auto& see) {
    see(bytes, tensor.bytes, Access::reads);
    see(y, size * width, Access::updates);
  }
};

/// out = numbers in [-1, 1): the draws of a stream in order.
struct DrawArguments {
  Draws draws;
  void* out;

  void each(size_t size, size_t width, const auto& see) { see(out, size * width, Access::writes); }
};

struct MoniquaEncodeArguments {
  double theta;
  Draws noise;
  const void* x;
  void* bytes;

  void each(size_t size, size_t width, const auto& see) {
    see(x, size * width, Access::reads);
    see(bytes, moniqua_bytes(size), Access::writes);
  }
};

struct MoniquaAddArguments {
  double theta, a;
  const void *x, *sent, *received;
  void* y;

  void each(size_t size, size_t width, const auto& see) {
    see(x, size * width, Access::reads);
    see(sent, moniqua_bytes(size), Access::reads);
    see(received, moniqua_bytes(size), Access::reads);
    see(y, size * width, Access::updates);
  }
};

namespace passes {

// On the CPU, on the threads of `on`; `places` is at the first draw of this tensor.
void run_on(const Execution& on, const CpuBuild&, bool wide, const EncodeArguments&,
            Random& places);
void run_on(const Execution& on, const CpuBuild&, bool wide, const DecodeArguments&,
            Random& places);

// The CPU versions.
void run_whole(const CpuBuild&, bool wide, const EncodeArguments&, size_t size);
void run_whole(const CpuBuild&, bool wide, const DecodeArguments&, size_t size);
void run_whole(const CpuBuild&, bool wide, const DrawArguments&, size_t size);
void run_whole(const CpuBuild&, bool wide, const MoniquaEncodeArguments&, size_t size);
void run_whole(const CpuBuild&, bool wide, const MoniquaAddArguments&, size_t size);

Random random_of(const Draws&);

}  // namespace passes

namespace cuda {
void queue(bool wide, const EncodeArguments&, size_t size, void* stream);
void queue(bool wide, const DecodeArguments&, size_t size, void* stream);
void queue(bool wide, const DrawArguments&, size_t size, void* stream);
void queue(bool wide, const MoniquaEncodeArguments&, size_t size, void* stream);
void queue(bool wide, const MoniquaAddArguments&, size_t size, void* stream);
}  // namespace cuda

}  // namespace grapevine
