// Holds for every compressor and for Moniqua on any device: they give the bytes and the numbers of
// the CPU.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "kernels/passes/moniqua.hpp"
#include "tests/kernels/compressors.hpp"
#include "tests/kernels/on_device.hpp"

namespace grapevine::testing {

/// As `awkward`, and one tensor of several blocks of a reduction.
inline ParameterLayout awkward_and_long(DType dtype) {
  ParameterLayout layout = awkward(dtype);
  layout.add("long", {131, 153}, true);
  return layout;
}

/// Numbers of which many are equal, some zeros of either sign.
inline Buffer coarse_buffer(size_t size, DType dtype, uint64_t stream) {
  Buffer buffer = random_buffer(size, dtype, stream);
  for (size_t i = 0; i < size; ++i) {
    const double value = std::trunc(2 * element(buffer, i)) / 2;
    if (dtype == DType::f32) {
      buffer.vec().as<float>()[i] = static_cast<float>(value);
    } else {
      buffer.vec().as<double>()[i] = value;
    }
  }
  return buffer;
}

inline Buffer copied(OnDevice& on, ConstVec there) {
  Buffer host(there.size, there.dtype);
  on.read(there, host);
  return host;
}

inline bool same_bits(ConstVec a, ConstVec b) {
  return a.bytes() == b.bytes() && (a.bytes() == 0 || std::memcmp(a.data, b.data, a.bytes()) == 0);
}

inline std::byte* bytes_of(const Vec& v) { return v.as<std::byte>(); }

/// C(v) on the device beside that of the CPU. `there` holds v, `bytes` lies at an odd address.
struct Compressed {
  Buffer here, there;      // the bytes
  Buffer y_here, y_there;  // y + a C(v), from the bytes of the CPU
};

inline Compressed compressed_on(OnDevice& on, const Compressor& c, ConstVec v) {
  on.clear();
  constexpr uint32_t kRank = 3;
  constexpr uint64_t kIndex = (uint64_t{2} << 32) + 7;
  const Execution e = on.execution();
  const Vec v_there = on.upload(v, 1);
  const Vec scratch = on.make(c.scratch_bytes(), DType::bytes);
  const Vec bytes = on.make(c.bytes(), DType::bytes, 1);
  Compressed got{Buffer(c.bytes(), DType::bytes), {}, random_buffer(v.size, v.dtype, 9), {}};
  const Vec y = on.upload(got.y_here, 3);
  c.encode(kCpu, v, kRank, kIndex, bytes_of(got.here));
  c.encode(e, v_there, kRank, kIndex, bytes_of(bytes), scratch);
  got.there = copied(on, bytes);
  CHECK(same_bits(v, copied(on, v_there)));
  on.write(got.here, bytes);
  c.decode(kCpu, bytes_of(got.here), kRank, kIndex, -0.7, got.y_here);
  c.decode(e, bytes_of(bytes), kRank, kIndex, -0.7, y, scratch);
  got.y_there = copied(on, y);
  return got;
}

/// `exact`: also products with a factor have the CPU's bits, not only its rounding.
inline void check_compressors(OnDevice& on, const ParameterLayout& layout, bool exact) {
  const DType dtype = layout.dtype();
  for (const std::string& spec : kSpecs) {
    for (const bool coarse : {false, true}) {
      const Buffer v =
          coarse ? coarse_buffer(layout.size(), dtype, 1) : random_buffer(layout.size(), dtype, 1);
      const Compressor c = made(spec, layout);
      const Compressed got = compressed_on(on, c, v);
      INFO(spec << " fp" << 8 * size_of(dtype) << (coarse ? " coarse" : ""));
      CHECK(c.runs_on_devices());
      CHECK(same_bits(got.y_here, got.y_there));
      if (exact || !spec.starts_with("low-rank")) {
        CHECK(same_bits(got.here, got.there));
        continue;
      }
      Buffer mine(v.size(), dtype), theirs(v.size(), dtype);
      c.decode(kCpu, bytes_of(const_cast<Buffer&>(got.here)), 3, 5, 1, mine);
      c.decode(kCpu, bytes_of(const_cast<Buffer&>(got.there)), 3, 5, 1, theirs);
      CHECK(square_distance(kCpu, mine, theirs) <=
            std::pow(1e4 * rounding(dtype), 2) * square(mine));
    }
  }
}

/// A NaN is the smallest of all: it travels only where nothing else is left.
inline void check_top_k_of_others(OnDevice& on, DType dtype) {
  ParameterLayout layout(dtype);
  layout.add("v", {20011}, false);
  for (const size_t numbers : {0, 5, 1999, 2003}) {
    Buffer v(layout.size(), dtype);
    for (size_t i = 0; i < v.size(); ++i) {
      const double value = i % 9 < 1 && i / 9 < numbers
                               ? (i % 2 == 0 ? 1 : -1) * static_cast<double>(i)
                               : std::nan("");
      if (dtype == DType::f32) {
        v.vec().as<float>()[i] = static_cast<float>(value);
      } else {
        v.vec().as<double>()[i] = value;
      }
    }
    const Compressed got = compressed_on(on, made("top-k:0.1", layout), v);
    INFO(numbers);
    CHECK(same_bits(got.here, got.there));
  }
}

inline void check_moniqua(OnDevice& on, DType dtype, size_t size, size_t shift) {
  on.clear();
  constexpr double kTheta = 0.25;
  constexpr uint64_t kIndex = (uint64_t{3} << 32) + 9;
  const Execution e = on.execution();
  const Buffer mine = random_buffer(size, dtype, 1), theirs = random_buffer(size, dtype, 2);
  Buffer y = random_buffer(size, dtype, 3), x = random_buffer(size, dtype, 1);
  Buffer sent(moniqua_bytes(size), DType::bytes), received(moniqua_bytes(size), DType::bytes);
  const Vec mine_there = on.upload(mine, shift), theirs_there = on.upload(theirs);
  const Vec y_there = on.upload(y, 1);
  const Vec sent_there = on.make(sent.size(), DType::bytes, 1);
  const Vec received_there = on.make(received.size(), DType::bytes, 2);
  moniqua_encode(kCpu, kTheta, kSeed, 4, kIndex, mine, bytes_of(sent));
  moniqua_encode(kCpu, kTheta, kSeed, 5, kIndex, theirs, bytes_of(received));
  moniqua_encode(e, kTheta, kSeed, 4, kIndex, mine_there, bytes_of(sent_there));
  moniqua_encode(e, kTheta, kSeed, 5, kIndex, theirs_there, bytes_of(received_there));
  moniqua_add(kCpu, kTheta, 0.4, mine, bytes_of(sent), bytes_of(received), y);
  moniqua_add(e, kTheta, 0.4, mine_there, bytes_of(sent_there), bytes_of(received_there), y_there);
  moniqua_add(kCpu, kTheta, 0.3, x, bytes_of(sent), bytes_of(received), x);
  moniqua_add(e, kTheta, 0.3, mine_there, bytes_of(sent_there), bytes_of(received_there),
              mine_there);
  INFO("fp" << 8 * size_of(dtype) << " size " << size << " shift " << shift);
  CHECK(same_bits(sent, copied(on, sent_there)));
  CHECK(same_bits(received, copied(on, received_there)));
  CHECK(same_bits(y, copied(on, y_there)));
  CHECK(same_bits(x, copied(on, mine_there)));
}

}  // namespace grapevine::testing
