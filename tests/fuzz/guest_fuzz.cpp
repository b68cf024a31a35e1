// Fuzzes decode_guest, read_guest_layout and read_guest_report (libFuzzer; built with clang++ and
// the address and undefined-behaviour sanitizers).
//
// Input: a record, then the text of a join or of a report. Either it is refused with one line, or
// what came out keeps every promise of guest_codec.hpp.
#include <fmt/core.h>

#include <cmath>
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

/// It has as many elements as its tensor, and none beyond it.
void check_view(const GuestLayout& layout, const GuestLayout::Tied& tied) {
  GV_CHECK(tied.shape.size() == tied.strides.size());
  uint64_t of = kGuestElements + 1;
  for (const auto* tensors : {&layout.trained, &layout.aside, &layout.aside64})
    for (const GuestLayout::Tensor& tensor : *tensors)
      if (tensor.name == tied.of) of = GuestLayout::elements({tensor});
  uint64_t elements = 1, last = 0;
  for (size_t k = 0; k < tied.shape.size(); ++k) {
    elements *= static_cast<uint64_t>(tied.shape[k]);
    if (tied.shape[k] > 0)
      last += static_cast<uint64_t>(tied.shape[k] - 1) * static_cast<uint64_t>(tied.strides[k]);
  }
  GV_CHECK(elements == of);
  GV_CHECK((elements == 0 || last < of));
}

/// Written down it reads as the same.
void check_report(const GuestReport& report) {
  GV_CHECK(report.size() > 0u);
  GV_CHECK(report.size() <= kGuestMeasures);
  std::string text;
  for (const auto& [name, value] : report) {
    GV_CHECK(std::isfinite(value));
    text += fmt::format("{} {}\n", name, value);
  }
  const auto again = read_guest_report(text);
  GV_CHECK(again);
  GV_CHECK(*again == report);
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
    for (const GuestLayout::Tied& tied : layout->tied)
      check_view(*layout, tied);
  } else {
    check_refusal(layout.error());
  }
  if (const auto report = read_guest_report(text))
    check_report(*report);
  else
    check_refusal(report.error());
  return 0;
}
