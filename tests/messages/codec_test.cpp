// The codec: what is encoded comes back, and what is not a header is refused with one line.
#include "messages/codec.hpp"

#include <rapidcheck.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/base/random.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

constexpr uint64_t kLimitBytes = 1 << 20;

// The offset of each field in the 88 bytes, as in messages/FORMAT.md.
constexpr size_t kVersionAt = 16, kKindAt = 18, kReasonAt = 20, kDTypeAt = 22,
                 kPayloadVersionAt = 44, kCountAt = 64, kAlphaTildeAt = 72, kBoundAt = 80,
                 kAllowanceAt = 84;

FrameHeader data_header() {
  FrameHeader h;
  h.kind = FrameKind::data;
  h.from = 3;
  h.to = 4;
  h.from_incarnation = 5;
  h.to_incarnation = 6;
  h.epoch = 7;
  h.number = 8;
  h.part = 9;
  h.count = 10;
  h.alpha_tilde = 1.25;
  h.bound = 2.5;
  h.allowance = 3.5;
  return h;
}

template <class T>
HeaderBytes with(HeaderBytes bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
  return bytes;
}

template <class T>
T read(const HeaderBytes& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::string refusal(std::span<const std::byte> bytes, uint64_t limit_bytes = kLimitBytes) {
  const auto decoded = decode(bytes, limit_bytes);
  return decoded ? "accepted" : decoded.error().message;
}

bool carries(FrameKind kind) {
  return kind == FrameKind::data || kind == FrameKind::chunk || kind == FrameKind::message;
}

FrameHeader random_valid_header() {
  FrameHeader h;
  h.kind = static_cast<FrameKind>(*rc::gen::inRange(0, kFrameKinds));
  h.reason = static_cast<DeclineReason>(*rc::gen::inRange(0, kDeclineReasons));
  h.dtype = static_cast<DType>(*rc::gen::inRange(0, 3));
  h.from = *rc::gen::arbitrary<uint32_t>();
  h.to = *rc::gen::arbitrary<uint32_t>();
  h.from_incarnation = *rc::gen::arbitrary<uint32_t>();
  h.to_incarnation = *rc::gen::arbitrary<uint32_t>();
  h.epoch = *rc::gen::arbitrary<uint64_t>();
  h.number = *rc::gen::arbitrary<uint64_t>();
  h.part = *rc::gen::arbitrary<uint32_t>();
  h.version = *rc::gen::arbitrary<uint32_t>();
  if (carries(h.kind)) {
    h.count = *rc::gen::inRange<uint64_t>(0, kLimitBytes / size_of(h.dtype) + 1);
  }
  h.alpha_tilde = std::abs(*rc::gen::arbitrary<double>());
  h.bound = std::abs(*rc::gen::arbitrary<float>());
  h.allowance = std::abs(*rc::gen::arbitrary<float>());
  return h;
}

}  // namespace

TEST_CASE("a valid header comes back as it was, and its bytes are the only encoding of it") {
  const bool holds = rc::check([] {
    const FrameHeader h = random_valid_header();
    const HeaderBytes bytes = encode(h);
    const auto decoded = decode(bytes, kLimitBytes);
    RC_ASSERT(bool(decoded));
    RC_ASSERT(*decoded == h);
    RC_ASSERT(encode(*decoded) == bytes);
  });
  CHECK(holds);
}

TEST_CASE("extreme values of every integer field survive") {
  FrameHeader h = data_header();
  h.from = h.to = h.from_incarnation = h.to_incarnation = h.part = ~uint32_t{0};
  h.epoch = h.number = ~uint64_t{0};
  h.alpha_tilde = std::numeric_limits<double>::denorm_min();
  const auto decoded = decode(encode(h), kLimitBytes);
  REQUIRE(decoded);
  CHECK(*decoded == h);
  CHECK(decoded->alpha_tilde == h.alpha_tilde);
}

TEST_CASE("every field lies little-endian at the offset that FORMAT.md gives") {
  FrameHeader h = data_header();
  h.reason = DeclineReason::repeat;
  h.dtype = DType::f64;
  h.from = 0x01020304;
  h.number = 0x1122334455667788;
  const HeaderBytes b = encode(h);
  const std::vector<uint8_t> head{0, 0, 0, 0, 10, 0, 0, 0,   // one segment of ten words
                                  0, 0, 0, 0, 9,  0, 0, 0,   // a struct of nine words
                                  2, 0, 3, 0, 3,  0, 1, 0,   // version, kind, reason, dtype
                                  4, 3, 2, 1, 4,  0, 0, 0};  // from, to
  CHECK(std::memcmp(b.data(), head.data(), head.size()) == 0);
  CHECK(read<uint32_t>(b, 32) == 5u);
  CHECK(read<uint32_t>(b, 36) == 6u);
  CHECK(read<uint32_t>(b, 40) == 9u);
  CHECK(read<uint32_t>(b, kPayloadVersionAt) == 0u);
  CHECK(read<uint64_t>(b, 48) == 7u);
  CHECK(static_cast<int>(b[56]) == 0x88);
  CHECK(static_cast<int>(b[63]) == 0x11);
  CHECK(read<uint64_t>(b, kCountAt) == 10u);
  CHECK(read<double>(b, kAlphaTildeAt) == 1.25);
}

TEST_CASE("a header of any other length is refused, cut or with something after it") {
  const HeaderBytes bytes = encode(data_header());
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.resize(2 * kHeaderBytes);
  for (size_t size = 0; size <= longer.size(); ++size) {
    if (size == kHeaderBytes) continue;
    CHECK(refusal({longer.data(), size}) ==
          "frame refused: header bytes " + std::to_string(size) + ", accepted: 88");
  }
}

TEST_CASE("a header is read from any address") {
  const HeaderBytes bytes = encode(data_header());
  std::array<std::byte, kHeaderBytes + 8> room{};
  for (size_t shift = 0; shift < 8; ++shift) {
    std::memcpy(room.data() + shift, bytes.data(), kHeaderBytes);
    const auto decoded = decode({room.data() + shift, kHeaderBytes}, kLimitBytes);
    REQUIRE(decoded);
    CHECK(*decoded == data_header());
  }
}

TEST_CASE("another segment table or root pointer is refused before anything is read") {
  for (size_t at = 0; at < 16; ++at) {
    const HeaderBytes good = encode(data_header());
    const auto other = static_cast<uint8_t>(read<uint8_t>(good, at) + 1);
    CHECK(refusal(with(good, at, other)) ==
          "frame refused: malformed, not one segment with one header struct");
  }
}

TEST_CASE("an unknown version, kind, reason or dtype is refused by name and value") {
  const HeaderBytes good = encode(data_header());
  CHECK(refusal(with<uint16_t>(good, kVersionAt, 1)) ==
        "frame refused: wire version 1, accepted: 2");
  CHECK(refusal(with<uint16_t>(good, kKindAt, 8)) == "frame refused: kind 8, accepted: 0 to 7");
  CHECK(refusal(with<uint16_t>(good, kKindAt, 0x0103)) ==
        "frame refused: kind 259, accepted: 0 to 7");
  CHECK(refusal(with<uint16_t>(good, kReasonAt, 8)) ==
        "frame refused: decline reason 8, accepted: 0 to 7");
  CHECK(refusal(with<uint16_t>(good, kDTypeAt, 3)) == "accepted");
  CHECK(refusal(with<uint16_t>(good, kDTypeAt, 4)) ==
        "frame refused: dtype 4, accepted: 0 (f32), 1 (f64), 2 (bytes) or 3 (bf16)");
}

TEST_CASE("a payload is accepted up to the announced bound and not one element above it") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    FrameHeader h = data_header();
    h.dtype = dtype;
    h.count = kLimitBytes / size_of(dtype);
    CHECK(refusal(encode(h)) == "accepted");
    ++h.count;
    CHECK(refusal(encode(h)) == "frame refused: payload elements " + std::to_string(h.count) +
                                    ", accepted: at most " + std::to_string(h.count - 1));
  }
}

TEST_CASE("a count whose bytes overflow 64 bits is refused, whatever bound was announced") {
  FrameHeader h = data_header();
  for (const uint64_t count : {uint64_t{1} << 62, uint64_t{1} << 63, ~uint64_t{0}}) {
    h.count = count;  // times four: 0, 0, and 2^64 - 4
    CHECK(refusal(encode(h), ~uint64_t{0}) == "frame refused: payload elements " +
                                                  std::to_string(count) +
                                                  ", accepted: at most 1073741824");
  }
}

TEST_CASE("only data, chunks and messages carry a payload") {
  for (int kind = 0; kind < kFrameKinds; ++kind) {
    FrameHeader h = data_header();
    h.kind = static_cast<FrameKind>(kind);
    const bool may = carries(h.kind);
    CHECK((refusal(encode(h)) == "accepted") == may);
    h.count = 0;
    CHECK(refusal(encode(h)) == "accepted");
  }
}

TEST_CASE("alpha_tilde travels as its bits and is refused unless finite and not negative") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {infinity, -infinity, std::nan(""), -1.0, -5e-324}) {
    FrameHeader h = data_header();
    h.alpha_tilde = bad;
    const HeaderBytes bytes = encode(h);
    CHECK(read<uint64_t>(bytes, kAlphaTildeAt) == std::bit_cast<uint64_t>(bad));
    CHECK(refusal(bytes).find("frame refused: alpha_tilde") == 0);
  }
  CHECK(refusal(with(encode(data_header()), kAlphaTildeAt, -0.0)) == "accepted");
}

TEST_CASE("a bound and an allowance may be infinite, and are refused where negative or no number") {
  for (const auto& [name, at] : {std::pair{"bound", kBoundAt}, {"allowance", kAllowanceAt}}) {
    const auto said = [at = at](float value) {
      return refusal(with(encode(data_header()), at, value));
    };
    for (const float bad : {-HUGE_VALF, std::nanf(""), -1.0F})
      CHECK(said(bad).find("frame refused: " + std::string(name)) == 0);
    CHECK(said(HUGE_VALF) == "accepted");
  }
}

TEST_CASE(
    "every flipped bit is either refused or decodes to a header that encodes to those bytes") {
  const HeaderBytes good = encode(data_header());
  int accepted = 0;
  for (size_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
    HeaderBytes flipped = good;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto decoded = decode(flipped, kLimitBytes);
    if (!decoded) continue;
    ++accepted;
    CHECK_FALSE(*decoded == data_header());
    CHECK(encode(*decoded) == flipped);
  }
  // No codec can notice changes of ranks, incarnations, part, epoch, number, small counts,
  // alpha_tilde, bound.
  CHECK(accepted >= 5 * 32 + 2 * 64);
  CHECK(accepted <= 5 * 32 + 5 * 64 + 8);
}

TEST_CASE("a million random headers, with or without a good prefix, are decoded without a crash") {
  Random random(1, 0, Purpose::test);
  const HeaderBytes good = encode(data_header());
  int accepted = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    HeaderBytes bytes = good;
    const size_t first = i % 3 == 0 ? 0 : i % 3 == 1 ? 16 : 24;
    for (size_t at = first; at < kHeaderBytes; at += 8) {
      bytes = with(bytes, at, random.bits() >> random.below(64));
    }
    const auto decoded = decode(bytes, kMaxPayloadBytes);
    if (decoded) {
      ++accepted;
      if (!(encode(*decoded) == bytes)) FAIL("accepted, and encodes otherwise, draw " << i);
    }
  }
  CHECK(accepted > 1000);
}
