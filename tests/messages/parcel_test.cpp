// The codec of parcels: what is encoded comes back, and what no honest node says is refused with
// one line.
#include <rapidcheck.h>

#include <cstring>
#include <string>

#include "kernels/base/random.hpp"
#include "messages/codec.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

constexpr uint64_t kLimitBytes = 1 << 20;

// The offsets of some fields in the 88 bytes, as in wire.capnp.
constexpr size_t kVersionAt = 16, kDTypeAt = 18, kWayAt = 20, kKindAt = 22, kCountAt = 24,
                 kOffsetAt = 48, kSpareAt = 56;

const Parcel kMean{MeanPiece{MeanPiece::Way::up, 7, 1, 4096, 12}, DType::f64, 100};
const Parcel kState{StatePiece{8, 3}, DType::f32, 100};

template <class T>
HeaderBytes with(HeaderBytes bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
  return bytes;
}

std::string refusal(const HeaderBytes& bytes, uint64_t limit_bytes = kLimitBytes) {
  const auto decoded = decode_parcel(bytes, limit_bytes);
  return decoded ? "accepted" : decoded.error().message;
}

template <class What>
std::string refusal(Parcel parcel, What what) {
  parcel.what = what;
  return refusal(encode(parcel));
}

Parcel random_valid_parcel() {
  Parcel p;
  p.dtype = static_cast<DType>(*rc::gen::inRange(0, 2));
  if (*rc::gen::arbitrary<bool>()) {
    const auto way = static_cast<MeanPiece::Way>(*rc::gen::inRange(0, 2));
    if (way == MeanPiece::Way::up && p.dtype == DType::f32) p.dtype = DType::bytes;
    p.what = MeanPiece{way, *rc::gen::arbitrary<uint64_t>(), *rc::gen::arbitrary<uint32_t>(),
                       *rc::gen::arbitrary<uint64_t>() >> 1,
                       *rc::gen::inRange<uint32_t>(0, kRanksAtMost + 1)};
  } else {
    p.dtype = static_cast<DType>(*rc::gen::inRange(0, 3));
    p.what = StatePiece{*rc::gen::arbitrary<uint64_t>(),
                        *rc::gen::inRange<uint32_t>(0, uint32_t{kMaxPieces})};
  }
  p.count = *rc::gen::inRange<uint64_t>(1, kLimitBytes / size_of(p.dtype) + 1);
  return p;
}

}  // namespace

TEST_CASE("a valid parcel comes back as it was, and its bytes are the only encoding of it") {
  const bool holds = rc::check([] {
    const Parcel p = random_valid_parcel();
    const HeaderBytes bytes = encode(p);
    const auto decoded = decode_parcel(bytes, kLimitBytes);
    RC_ASSERT(bool(decoded));
    RC_ASSERT(*decoded == p);
  });
  CHECK(holds);
}

TEST_CASE("a parcel without a payload, or with more than was announced, is refused") {
  for (Parcel p : {kMean, kState}) {
    const uint64_t most = kLimitBytes / size_of(p.dtype);
    const std::string accepted = ", accepted: 1 to " + std::to_string(most);
    for (const uint64_t count : {uint64_t{1}, most}) {
      p.count = count;
      CHECK(refusal(encode(p)) == "accepted");
    }
    for (const uint64_t count : {uint64_t{0}, most + 1, uint64_t{1} << 62, ~uint64_t{0}}) {
      p.count = count;
      CHECK(refusal(encode(p)) ==
            "parcel refused: payload elements " + std::to_string(count) + accepted);
    }
  }
}

TEST_CASE("a piece of a mean names ranks, numbers and elements that there can be") {
  MeanPiece m = std::get<MeanPiece>(kMean.what);
  m.ranks = 0;  // of a node whose ranks have all diverged
  CHECK(refusal(kMean, m) == "accepted");
  m.ranks = kRanksAtMost + 1;
  CHECK(refusal(kMean, m) == "parcel refused: ranks in a mean 16777217, accepted: up to 16777216");
  m.ranks = kRanksAtMost;
  m.offset = ~uint64_t{0} - 100;
  CHECK(refusal(kMean, m) == "accepted");
  ++m.offset;
  CHECK(refusal(kMean, m).find("parcel refused: first element") == 0);
  Parcel wrong = kMean;
  const std::string accepted = ", accepted: fp64 or packed on the way up, numbers on the way down";
  wrong.dtype = DType::f32;  // a sum loses digits
  CHECK(refusal(encode(wrong)) == "parcel refused: dtype of a mean 0" + accepted);
  std::get<MeanPiece>(wrong.what).way = MeanPiece::Way::down;
  CHECK(refusal(encode(wrong)) == "accepted");
  wrong.dtype = DType::bytes;
  CHECK(refusal(encode(wrong)) == "parcel refused: dtype of a mean 2" + accepted);
  std::get<MeanPiece>(wrong.what).way = MeanPiece::Way::up;
  CHECK(refusal(encode(wrong)) == "accepted");
}

TEST_CASE("a piece beyond the most of a snapshot is refused") {
  CHECK(refusal(kState, StatePiece{1, kMaxPieces - 1}) == "accepted");
  CHECK(refusal(kState, StatePiece{1, kMaxPieces}) ==
        "parcel refused: piece 4096, accepted: below 4096");
}

TEST_CASE("an unknown version, kind, dtype or way of a parcel is refused by name and value") {
  const HeaderBytes good = encode(kMean);
  CHECK(refusal(with<uint16_t>(good, kVersionAt, 1)) ==
        "parcel refused: wire version 1, accepted: 2");
  CHECK(refusal(with<uint16_t>(good, kKindAt, 2)) == "parcel refused: kind 2, accepted: 0 to 1");
  CHECK(refusal(with<uint16_t>(good, kDTypeAt, 3)) ==
        "parcel refused: dtype 3, accepted: 0 (f32), 1 (f64) or 2 (bytes)");
  CHECK(refusal(with<uint16_t>(good, kWayAt, 2)) == "parcel refused: way 2, accepted: 0 to 1");
  for (size_t at = 0; at < 16; ++at)
    CHECK(refusal(with<uint8_t>(good, at, static_cast<uint8_t>(good[at]) ^ 1)) ==
          "parcel refused: malformed, not one segment with one struct");
  CHECK_FALSE(decode_parcel({good.data(), kHeaderBytes - 1}, kLimitBytes));
}

TEST_CASE("fields that a kind does not have must be zero: a parcel has one encoding") {
  const std::string why = "parcel refused: something in fields that its kind does not have";
  for (const Parcel& p : {kMean, kState})
    for (size_t at = kSpareAt; at < kHeaderBytes; at += 8)
      CHECK(refusal(with<uint64_t>(encode(p), at, 1)) == why);
  CHECK(refusal(with<uint64_t>(encode(kState), kOffsetAt, 1)) == why);
  CHECK(refusal(with<uint16_t>(encode(kState), kWayAt, 1)) == why);
}

TEST_CASE("a million random parcels are decoded without a crash, and none has two encodings") {
  Random random(1, 0, Purpose::test);
  int accepted = 0;
  for (int k = 0; k < 1'000'000; ++k) {
    HeaderBytes bytes = encode(k % 2 == 0 ? kMean : kState);
    for (int changes = static_cast<int>(random.below(4)); changes >= 0; --changes)
      bytes = with(bytes, 16 + 8 * random.below(8), random.bits() >> random.below(64));
    if (k % 3 == 0) bytes = with<uint64_t>(bytes, kCountAt, 1 + random.below(1000));
    const auto decoded = decode_parcel(bytes, kMaxPayloadBytes);
    if (!decoded) continue;
    ++accepted;
    if (!(encode(*decoded) == bytes)) FAIL("accepted, and encodes otherwise, draw " << k);
  }
  CHECK(accepted > 1000);
}
