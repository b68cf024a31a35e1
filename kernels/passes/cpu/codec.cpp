// One tensor to its bytes and back on the CPU: the CPU versions of codec_passes.hpp.
#include "kernels/passes/codec_passes.hpp"

#include <cmath>
#include <cstring>

#include "kernels/base/random.hpp"
#include "kernels/passes/launch.hpp"
#include "kernels/passes/top_k.hpp"

namespace grapevine::passes {

using codec::Kind;
using codec::Tensor;

namespace {

/// Arguments that the passes of one call share.
struct Call {
  const Execution& on;
  const CpuBuild& build;
  bool wide;
  const Tensor& t;

  const PackingBuild& packing() const { return build.packing; }
  DType dtype() const { return wide ? DType::f64 : DType::f32; }
  size_t width() const { return size_of(dtype()); }
};

/// Reads one number at any address.
double read_number(bool wide, const void* from) {
  if (wide) {
    double value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  float value;
  std::memcpy(&value, from, sizeof value);
  return static_cast<double>(value);
}

void write_number(bool wide, double value, void* to) {
  const auto narrow = static_cast<float>(value);
  std::memcpy(to, wide ? static_cast<const void*>(&value) : &narrow, wide ? 8 : 4);
}

const uint8_t* number_at(const ConstVec& v, size_t i) {
  return static_cast<const uint8_t*>(v.data) + i * size_of(v.dtype);
}

/// y[i] += a (the number at `value`), in the arithmetic of the dtype.
void add_at(const Vec& y, size_t i, double a, const void* value) {
  if (y.dtype == DType::f64) {
    y.as<double>()[i] += a * read_number(true, value);
  } else {
    y.as<float>()[i] += static_cast<float>(a) * static_cast<float>(read_number(false, value));
  }
}

/// y += a (the bytes as a vector). The bytes may be unaligned; they are copied through aligned
/// blocks.
void add_raw(const Call& c, const uint8_t* bytes, double a, const Vec& y) {
  split(c.on, y, [&](size_t first, size_t last) {
    constexpr size_t kBlock = 512;
    alignas(64) double aligned[kBlock];
    for (size_t i = first; i < last; i += kBlock) {
      const size_t size = std::min(kBlock, last - i);
      std::memcpy(aligned, bytes + i * c.width(), size * c.width());
      run(c.build, c.wide, AxpyArguments{a, aligned, y.part(i, size).data}, 0, size);
    }
  });
}

/// Draws a place in each of `count` equal parts of the tensor.
template <class Take>
void for_places(const Tensor& t, Random& random, const Take& take) {
  for (size_t k = 0; k < t.count; ++k) {
    const size_t first = k * t.size / t.count, last = (k + 1) * t.size / t.count;
    take(k, first + random.below(static_cast<uint32_t>(last - first)));
  }
}

void encode_random_k(const Call& c, Random& places, const ConstVec& v, uint8_t* bytes) {
  for_places(c.t, places, [&](size_t k, size_t i) {
    std::memcpy(bytes + k * c.width(), number_at(v, i), c.width());
  });
}

void decode_random_k(const Call& c, Random& places, const uint8_t* bytes, double a, const Vec& y) {
  for_places(c.t, places, [&](size_t k, size_t i) { add_at(y, i, a, bytes + k * c.width()); });
}

/// Writes places, then values.
void encode_top_k(const Call& c, const ConstVec& v, uint8_t* bytes) {
  const std::vector<uint32_t> places = codec::largest_places(c.build, v, c.t.count);
  std::memcpy(bytes, places.data(), 4 * c.t.count);
  uint8_t* values = bytes + 4 * c.t.count;
  for (const uint32_t i : places) {
    std::memcpy(values, number_at(v, i), c.width());
    values += c.width();
  }
}

void decode_top_k(const Call& c, const uint8_t* bytes, double a, const Vec& y) {
  const uint8_t* values = bytes + 4 * c.t.count;
  for (size_t k = 0; k < c.t.count; ++k) {
    uint32_t place;
    std::memcpy(&place, bytes + 4 * k, 4);
    if (place < y.size) add_at(y, place, a, values + k * c.width());
  }
}

void encode_sign(const Call& c, const ConstVec& v, uint8_t* bytes) {
  const double norm = block_sum(c.on, v, [&](size_t first, size_t last) {
    return c.packing().absolute_sum(c.wide, v.data, first, last);
  });
  write_number(c.wide, norm / static_cast<double>(v.size), bytes);
  split(c.on, v, [&](size_t first, size_t last) {
    c.packing().pack_signs(c.wide, v.data, first, last, bytes + c.width());
  });
}

void decode_sign(const Call& c, const uint8_t* bytes, double a, const Vec& y) {
  const double s = a * read_number(c.wide, bytes);
  split(c.on, y, [&](size_t first, size_t last) {
    c.packing().add_signs(c.wide, bytes + c.width(), s, first, last, y.data);
  });
}

/// The level of v is (v / max + 1) / 2, scaled to [0, 2^bits - 1] and rounded.
void encode_quantise(const Call& c, const ConstVec& v, uint8_t* bytes) {
  double most = 0;
  for (const double m : blocks<double>(c.on, v, [&](size_t first, size_t last) {
         return c.packing().largest(c.wide, v.data, first, last);
       })) {
    most = std::max(most, m);
  }
  write_number(c.wide, most, bytes);
  const double half = 0.5 * ((1 << c.t.bits) - 1);
  const QuantiseArguments g{c.t.bits, most > 0 ? half / most : 0, half + 0.5, v.data};
  split(c.on, v, [&](size_t first, size_t last) {
    c.packing().quantise(c.wide, g, first, last, bytes + c.width());
  });
}

void decode_quantise(const Call& c, const uint8_t* bytes, double a, const Vec& y) {
  const double most = read_number(c.wide, bytes);
  const DequantiseArguments g{c.t.bits, 2 * a * most / ((1 << c.t.bits) - 1), -a * most, y.data};
  split(c.on, y, [&](size_t first, size_t last) {
    c.packing().dequantise(c.wide, g, first, last, bytes + c.width());
  });
}

}  // namespace

Random random_of(const Draws& draws) {
  return {draws.seed, draws.rank, Purpose::compression, draws.index};
}

namespace {

/// A stream at the first draw of this tensor.
Random places_of(const Draws& draws, const Tensor& t) {
  Random places = random_of(draws);
  for (uint64_t k = 0; k < t.first_draw; ++k)
    places.bits();
  return places;
}

}  // namespace

void run_on(const Execution& on, const CpuBuild& build, bool wide, const EncodeArguments& g,
            Random& places) {
  const Call c{on, build, wide, g.tensor};
  const ConstVec v(g.v, g.tensor.size, c.dtype());
  auto* bytes = static_cast<uint8_t*>(g.bytes);
  switch (g.tensor.kind) {
    case Kind::top_k: return encode_top_k(c, v, bytes);
    case Kind::random_k: return encode_random_k(c, places, v, bytes);
    case Kind::sign: return encode_sign(c, v, bytes);
    case Kind::quantise: return encode_quantise(c, v, bytes);
    case Kind::identity:
    case Kind::low_rank: break;
  }
  GV_CHECK((g.tensor.kind == Kind::top_k));  // or another kind that is one pass
}

void run_on(const Execution& on, const CpuBuild& build, bool wide, const DecodeArguments& g,
            Random& places) {
  const Call c{on, build, wide, g.tensor};
  const Vec y(g.y, g.tensor.size, c.dtype());
  const auto* bytes = static_cast<const uint8_t*>(g.bytes);
  switch (g.tensor.kind) {
    case Kind::identity: return add_raw(c, bytes, g.a, y);
    case Kind::top_k: return decode_top_k(c, bytes, g.a, y);
    case Kind::random_k: return decode_random_k(c, places, bytes, g.a, y);
    case Kind::sign: return decode_sign(c, bytes, g.a, y);
    case Kind::quantise: return decode_quantise(c, bytes, g.a, y);
    case Kind::low_rank: break;
  }
  GV_CHECK((g.tensor.kind == Kind::identity));  // or another kind that is one pass
}

void run_whole(const CpuBuild& build, bool wide, const EncodeArguments& g, size_t) {
  Random places = places_of(g.places, g.tensor);
  run_on({}, build, wide, g, places);
}

void run_whole(const CpuBuild& build, bool wide, const DecodeArguments& g, size_t) {
  Random places = places_of(g.places, g.tensor);
  run_on({}, build, wide, g, places);
}

void run_whole(const CpuBuild&, bool wide, const DrawArguments& g, size_t size) {
  Random random = random_of(g.draws);
  for (size_t i = 0; i < size; ++i)
    write_number(wide, random.uniform(-1, 1), static_cast<std::byte*>(g.out) + i * (wide ? 8 : 4));
}

}  // namespace grapevine::passes
