// Fuzzes decode and decode_parcel (libFuzzer; built with clang++ and the address and
// undefined-behaviour sanitizers).
//
// Input: eight bytes of announced payload bound, then what arrived before a payload. Either it is
// refused with one line, or what came out keeps every promise of codec.hpp.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "kernels/base/check.hpp"
#include "messages/codec.hpp"

using namespace grapevine;

namespace {

void check_promises(const FrameHeader& h, std::span<const std::byte> bytes, uint64_t limit_bytes) {
  GV_CHECK(static_cast<int>(h.kind) < kFrameKinds);
  GV_CHECK(static_cast<int>(h.reason) < kDeclineReasons);
  GV_CHECK((h.dtype == DType::f32 || h.dtype == DType::f64 || h.dtype == DType::bytes ||
            h.dtype == DType::bf16));
  GV_CHECK(h.count <= kMaxPayloadBytes);
  GV_CHECK(payload_bytes(h) <= limit_bytes);
  GV_CHECK((h.count == 0 || h.kind == FrameKind::data || h.kind == FrameKind::chunk ||
            h.kind == FrameKind::message));
  GV_CHECK((std::isfinite(h.alpha_tilde) && h.alpha_tilde >= 0));
  const HeaderBytes again = encode(h);
  GV_CHECK(std::memcmp(again.data(), bytes.data(), kHeaderBytes) == 0);
}

void check_promises(const Parcel& p, std::span<const std::byte> bytes, uint64_t limit_bytes) {
  GV_CHECK((p.dtype == DType::f32 || p.dtype == DType::f64 || p.dtype == DType::bytes));
  GV_CHECK(p.count > 0u);
  GV_CHECK(p.count <= kMaxPayloadBytes);
  GV_CHECK(payload_bytes(p) <= limit_bytes);
  if (const auto* mean = std::get_if<MeanPiece>(&p.what)) {
    GV_CHECK(mean->ranks <= kRanksAtMost);
    GV_CHECK(mean->offset + p.count >= p.count);
  } else {
    GV_CHECK(std::get<StatePiece>(p.what).piece < kMaxPieces);
  }
  const HeaderBytes again = encode(p);
  GV_CHECK(std::memcmp(again.data(), bytes.data(), kHeaderBytes) == 0);
}

template <class T>
void check(const Result<T>& decoded, std::span<const std::byte> bytes, uint64_t limit_bytes,
           const char* refused) {
  if (decoded) return check_promises(*decoded, bytes, limit_bytes);
  GV_CHECK(decoded.error().kind == Error::Kind::world);
  GV_CHECK(decoded.error().message.find(refused) == 0u);
  GV_CHECK(decoded.error().message.find('\n') == std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint64_t limit_bytes = 0;
  if (size < sizeof limit_bytes) return 0;
  std::memcpy(&limit_bytes, data, sizeof limit_bytes);
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(sizeof limit_bytes);
  check(decode(bytes, limit_bytes), bytes, limit_bytes, "frame refused: ");
  check(decode_parcel(bytes, limit_bytes), bytes, limit_bytes, "parcel refused: ");
  return 0;
}
