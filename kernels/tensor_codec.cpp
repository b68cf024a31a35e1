#include "kernels/tensor_codec.hpp"

#include <cmath>
#include <cstring>

#include "kernels/cpu/split.hpp"
#include "kernels/low_rank.hpp"
#include "kernels/top_k.hpp"

namespace grapevine::codec {

using namespace passes;

namespace {

uint8_t* raw(std::byte* bytes) { return reinterpret_cast<uint8_t*>(bytes); }
const uint8_t* raw(const std::byte* bytes) { return reinterpret_cast<const uint8_t*>(bytes); }

/// One number of the vector's dtype, wherever it lies.
double read_number(DType dtype, const void* from) {
  if (dtype == DType::f64) {
    double value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  float value;
  std::memcpy(&value, from, sizeof value);
  return static_cast<double>(value);
}

void write_number(DType dtype, double value, void* to) {
  const auto narrow = static_cast<float>(value);
  std::memcpy(to, dtype == DType::f64 ? static_cast<const void*>(&value) : &narrow, size_of(dtype));
}

const std::byte* element_of(const ConstVec& v, size_t i) {
  return static_cast<const std::byte*>(v.data) + i * size_of(v.dtype);
}

/// y[i] += a (the number at `value`), in the arithmetic of the dtype.
void add_at(const Vec& y, size_t i, double a, const void* value) {
  if (y.dtype == DType::f64) {
    y.as<double>()[i] += a * read_number(y.dtype, value);
  } else {
    y.as<float>()[i] += static_cast<float>(a) * static_cast<float>(read_number(y.dtype, value));
  }
}

/// y += a (the bytes as a vector), which may lie unaligned: through blocks that do not.
void add_raw(const Execution& on, const std::byte* bytes, double a, Vec y) {
  split(on, y, [&](size_t first, size_t last) {
    constexpr size_t kBlock = 512;
    alignas(64) double aligned[kBlock];
    for (size_t i = first; i < last; i += kBlock) {
      const size_t size = std::min(kBlock, last - i);
      std::memcpy(aligned, bytes + i * size_of(y.dtype), size * size_of(y.dtype));
      axpy({}, a, {aligned, size, y.dtype}, y.part(i, size));
    }
  });
}

/// A place in each of `count` equal parts of [0, size).
template <class Take>
void for_places(size_t size, size_t count, Random& random, const Take& take) {
  for (size_t k = 0; k < count; ++k) {
    const size_t first = k * size / count, last = (k + 1) * size / count;
    take(k, first + random.below(static_cast<uint32_t>(last - first)));
  }
}

/// places, then values.
void encode_top_k(const Execution& on, const Tensor& t, const ConstVec& v, std::byte* bytes) {
  const std::vector<uint32_t> places = largest_places(on, v, t.count);
  std::memcpy(bytes, places.data(), 4 * t.count);
  std::byte* values = bytes + 4 * t.count;
  for (const uint32_t i : places) {
    std::memcpy(values, element_of(v, i), size_of(v.dtype));
    values += size_of(v.dtype);
  }
}

void decode_top_k(const Tensor& t, const std::byte* bytes, double a, const Vec& y) {
  const std::byte* values = bytes + 4 * t.count;
  for (size_t k = 0; k < t.count; ++k) {
    uint32_t place;
    std::memcpy(&place, bytes + 4 * k, 4);
    if (place < y.size) add_at(y, place, a, values + k * size_of(y.dtype));
  }
}

void encode_sign(const Execution& on, const Tensor& t, const ConstVec& v, std::byte* bytes) {
  const PackingBuild& build = best_build().packing;
  const double norm = block_sum(on, v, [&](size_t first, size_t last) {
    return build.absolute_sum(wide(v.dtype), v.data, first, last);
  });
  write_number(v.dtype, norm / static_cast<double>(t.size), bytes);
  split(on, v, [&](size_t first, size_t last) {
    build.pack_signs(wide(v.dtype), v.data, first, last, raw(bytes + size_of(v.dtype)));
  });
}

void decode_sign(const Execution& on, const std::byte* bytes, double a, const Vec& y) {
  const double s = a * read_number(y.dtype, bytes);
  split(on, y, [&](size_t first, size_t last) {
    best_build().packing.add_signs(wide(y.dtype), raw(bytes + size_of(y.dtype)), s, first, last,
                                   y.data);
  });
}

/// The level of v is that of (v / max + 1) / 2 on [0, 2^bits - 1], rounded.
void encode_quantise(const Execution& on, const Tensor& t, const ConstVec& v, std::byte* bytes) {
  const PackingBuild& build = best_build().packing;
  double most = 0;
  for (const double m : blocks<double>(on, v, [&](size_t first, size_t last) {
         return build.largest(wide(v.dtype), v.data, first, last);
       })) {
    most = std::max(most, m);
  }
  write_number(v.dtype, most, bytes);
  const double half = 0.5 * ((1 << t.bits) - 1);
  const QuantiseArguments g{t.bits, most > 0 ? half / most : 0, half + 0.5, v.data};
  split(on, v, [&](size_t first, size_t last) {
    build.quantise(wide(v.dtype), g, first, last, raw(bytes + size_of(v.dtype)));
  });
}

void decode_quantise(const Execution& on, const Tensor& t, const std::byte* bytes, double a,
                     const Vec& y) {
  const double most = read_number(y.dtype, bytes);
  const DequantiseArguments g{t.bits, 2 * a * most / ((1 << t.bits) - 1), -a * most, y.data};
  split(on, y, [&](size_t first, size_t last) {
    best_build().packing.dequantise(wide(y.dtype), g, first, last, raw(bytes + size_of(y.dtype)));
  });
}

LowRank shape_of(const Tensor& t) { return {t.rows, t.columns, t.count}; }

/// Twice, because the 1e-8 in the norms would shrink what a small v leaves.
void orthonormalise_well(const Execution& on, size_t rows, size_t rank, Vec factor) {
  orthonormalise(on, rows, rank, factor);
  orthonormalise(on, rows, rank, factor);
}

/// Subspace iteration: P = X Q for an orthonormal Q, Q = X^T P for an orthonormal P, ... The last
/// factor, P, carries the magnitude.
void encode_low_rank(const Execution& on, const Tensor& t, const ConstVec& v,
                     std::span<const double> start, std::byte* bytes) {
  constexpr int kIterations = 4;
  const LowRank shape = shape_of(t);
  Buffer p(t.rows * t.count, v.dtype), q(t.columns * t.count, v.dtype);
  for (size_t i = 0; i < q.size(); ++i) {
    write_number(v.dtype, start[i], static_cast<std::byte*>(q.vec().data) + i * size_of(v.dtype));
  }
  for (int k = 0; k < kIterations; ++k) {
    if (k > 0) {
      orthonormalise_well(on, t.rows, t.count, p);
      transposed_times(on, shape, v, p, q);
    }
    orthonormalise_well(on, t.columns, t.count, q);
    times(on, shape, v, q, p);
  }
  std::memcpy(bytes, p.vec().data, p.vec().bytes());
  std::memcpy(bytes + p.vec().bytes(), q.vec().data, q.vec().bytes());
}

void decode_low_rank(const Execution& on, const Tensor& t, const std::byte* bytes, double a,
                     const Vec& y) {
  Buffer p(t.rows * t.count, y.dtype), q(t.columns * t.count, y.dtype);
  std::memcpy(p.vec().data, bytes, p.vec().bytes());
  std::memcpy(q.vec().data, bytes + p.vec().bytes(), q.vec().bytes());
  add_low_rank(on, shape_of(t), a, p, q, y);
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

void encode(const Execution& on, const Tensor& t, ConstVec v, Random& places,
            std::span<const double> start, std::byte* bytes) {
  switch (t.kind) {
    case Kind::identity: std::memcpy(bytes, v.data, v.bytes()); return;
    case Kind::top_k: return encode_top_k(on, t, v, bytes);
    case Kind::random_k:
      return for_places(t.size, t.count, places, [&](size_t k, size_t i) {
        std::memcpy(bytes + k * size_of(v.dtype), element_of(v, i), size_of(v.dtype));
      });
    case Kind::sign: return encode_sign(on, t, v, bytes);
    case Kind::low_rank: return encode_low_rank(on, t, v, start, bytes);
    case Kind::quantise: return encode_quantise(on, t, v, bytes);
  }
}

void decode(const Execution& on, const Tensor& t, const std::byte* bytes, Random& places, double a,
            Vec y) {
  switch (t.kind) {
    case Kind::identity: return add_raw(on, bytes, a, y);
    case Kind::top_k: return decode_top_k(t, bytes, a, y);
    case Kind::random_k:
      return for_places(t.size, t.count, places,
                        [&](size_t k, size_t i) { add_at(y, i, a, bytes + k * size_of(y.dtype)); });
    case Kind::sign: return decode_sign(on, bytes, a, y);
    case Kind::low_rank: return decode_low_rank(on, t, bytes, a, y);
    case Kind::quantise: return decode_quantise(on, t, bytes, a, y);
  }
}

}  // namespace grapevine::codec
