// Fuzzes decode_control (libFuzzer; built with clang++ and the address and undefined-behaviour
// sanitizers). What arrives is refused with one line, or encodes to a message that decodes to the
// same value.
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "kernels/base/check.hpp"
#include "messages/control_codec.hpp"

using namespace grapevine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto decoded = decode_control(std::as_bytes(std::span(data, size)));
  if (!decoded) {
    GV_CHECK(decoded.error().kind == Error::Kind::world);
    GV_CHECK(decoded.error().message.find("message refused: ") == 0u);
    GV_CHECK(decoded.error().message.find('\n') == std::string::npos);
    return 0;
  }
  const auto again = encode_control(*decoded);
  GV_CHECK(static_cast<bool>(again));
  GV_CHECK(again->size() <= kControlBytes);
  const auto same = decode_control(*again);
  GV_CHECK(static_cast<bool>(same));
  GV_CHECK((*same == *decoded));
  return 0;
}
