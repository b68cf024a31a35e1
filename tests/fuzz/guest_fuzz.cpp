// Fuzzes decode_guest and read_guest_layout (libFuzzer; built with clang++ and the address and
// undefined-behaviour sanitizers).
//
// Input: a record, then the text of a join. Either it is refused with one line, or what came out
// keeps every promise of guest_codec.hpp.
#include <cstdint>
#include <cstring>
#include <string>

#include "kernels/base/check.hpp"
#include "messages/guest_codec.hpp"

using namespace grapevine;

namespace {

void check_refusal(const Error& error) {
  GV_CHECK(error.kind == Error::Kind::world);
  GV_CHECK(error.message.find("refused: ") != std::string::npos);
  GV_CHECK(error.message.find('\n') == std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto head = bytes.first(std::min(size, kGuestRecordBytes));
  if (const auto record = decode_guest(head)) {
    const GuestRecordBytes again = encode(*record);
    GV_CHECK(std::memcmp(again.data(), head.data(), kGuestRecordBytes) == 0);
  } else {
    check_refusal(record.error());
  }
  const std::string text(reinterpret_cast<const char*>(data) + head.size(), size - head.size());
  if (const auto layout = read_guest_layout(text)) {
    GV_CHECK(layout->trained_elements() > 0u);
    GV_CHECK(layout->trained_elements() + layout->aside_elements() <= kGuestElements);
  } else {
    check_refusal(layout.error());
  }
  return 0;
}
