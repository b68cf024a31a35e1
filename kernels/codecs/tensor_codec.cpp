#include "kernels/codecs/tensor_codec.hpp"

#include <cstring>

#include "kernels/passes/launch.hpp"
#include "kernels/passes/low_rank.hpp"

namespace grapevine::codec {

using namespace passes;

namespace {

void copy(const Execution& on, void* to, const void* from, size_t bytes) {
  if (on.device == nullptr) {
    std::memcpy(to, from, bytes);
  } else {  // as with a pass, a lost device informs its owner
    static_cast<void>(on.device->copy(on.stream, to, from, bytes));
  }
}

LowRank shape_of(const Tensor& t) { return {t.rows, t.columns, t.count}; }

/// Twice, because the 1e-8 in the norms would shrink the result for a small v.
void orthonormalise_well(const Execution& on, size_t rows, size_t rank, Vec factor) {
  orthonormalise(on, rows, rank, factor);
  orthonormalise(on, rows, rank, factor);
}

/// P and Q of one tensor: in the scratch of a device, or in memory of their own.
class Factors {
 public:
  Factors(const Call& call, const Tensor& t, DType dtype) {
    const size_t p_size = t.rows * t.count, q_size = t.columns * t.count;
    if (call.on.device == nullptr) {
      p = own_p_ = Buffer(p_size, dtype);
      q = own_q_ = Buffer(q_size, dtype);
      return;
    }
    const Vec all(call.scratch, p_size + q_size, dtype);
    p = all.part(0, p_size);
    q = all.part(p_size, q_size);
  }
  Vec p, q;

 private:
  Buffer own_p_, own_q_;
};

/// The first Q: no tensor is likely to be orthogonal to it.
void begin(const Execution& on, std::span<const double> start, const Vec& q) {
  if (on.device != nullptr) return queue(on, wide(q.dtype), DrawArguments{kStart, q.data}, q.size);
  for (size_t i = 0; i < q.size; ++i) {
    if (q.dtype == DType::f64) {
      q.as<double>()[i] = start[i];
    } else {
      q.as<float>()[i] = static_cast<float>(start[i]);
    }
  }
}

/// Subspace iteration: P = X Q for an orthonormal Q, Q = X^T P for an orthonormal P, ... The last
/// factor, P, carries the magnitude.
void encode_low_rank(const Call& call, const Tensor& t, const ConstVec& v,
                     std::span<const double> start, std::byte* bytes) {
  constexpr int kIterations = 4;
  const LowRank shape = shape_of(t);
  const Factors f(call, t, v.dtype);
  begin(call.on, start, f.q);
  for (int k = 0; k < kIterations; ++k) {
    if (k > 0) {
      orthonormalise_well(call.on, t.rows, t.count, f.p);
      transposed_times(call.on, shape, v, f.p, f.q);
    }
    orthonormalise_well(call.on, t.columns, t.count, f.q);
    times(call.on, shape, v, f.q, f.p);
  }
  copy(call.on, bytes, f.p.data, f.p.bytes());
  copy(call.on, bytes + f.p.bytes(), f.q.data, f.q.bytes());
}

void decode_low_rank(const Call& call, const Tensor& t, const std::byte* bytes, double a,
                     const Vec& y) {
  const Factors f(call, t, y.dtype);
  copy(call.on, f.p.data, bytes, f.p.bytes());
  copy(call.on, f.q.data, bytes + f.p.bytes(), f.q.bytes());
  add_low_rank(call.on, shape_of(t), a, f.p, f.q, y);
}

}  // namespace

size_t bytes_of(const Tensor& t, DType dtype) {
  const size_t width = size_of(dtype);
  switch (t.kind) {
    case Kind::identity: return t.size * width;
    case Kind::top_k: return t.count * (4 + width);
    case Kind::random_k: return t.count * width;
    case Kind::sign: return (t.size + 7) / 8 + width;
    case Kind::low_rank: return (t.rows + t.columns) * t.count * width;
    case Kind::quantise: return (t.size * static_cast<size_t>(t.bits) + 7) / 8 + width;
  }
  return 0;
}

void encode(Call& call, const Tensor& t, ConstVec v, std::span<const double> start,
            std::byte* bytes) {
  if (t.kind == Kind::identity) return copy(call.on, bytes, v.data, v.bytes());
  if (t.kind == Kind::low_rank) return encode_low_rank(call, t, v, start, bytes);
  const bool has_scratch = scratch_bytes_of(t, size_of(v.dtype)) > 0;
  const EncodeArguments g{t, call.draws, v.data, has_scratch ? call.scratch : nullptr, bytes};
  if (call.on.device != nullptr) return queue(call.on, wide(v.dtype), g, t.size);
  run_on(call.on, best_build(), wide(v.dtype), g, call.places);
}

void decode(Call& call, const Tensor& t, const std::byte* bytes, double a, Vec y) {
  if (t.kind == Kind::low_rank) return decode_low_rank(call, t, bytes, a, y);
  const DecodeArguments g{t, call.draws, a, bytes, y.data};
  if (call.on.device != nullptr) return queue(call.on, wide(y.dtype), g, t.size);
  run_on(call.on, best_build(), wide(y.dtype), g, call.places);
}

}  // namespace grapevine::codec
