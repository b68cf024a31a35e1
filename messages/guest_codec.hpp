// The codec of guests' messages: GuestRecord to bytes and back, by the schema in guest.capnp, and
// the text of a join to a GuestLayout. Each is validated once.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "kernels/base/result.hpp"
#include "messages/guest.hpp"

namespace grapevine {

constexpr uint16_t kGuestVersion = 2;
constexpr size_t kGuestRecordBytes = 80;
constexpr uint64_t kGuestTextBytes = uint64_t{16} << 20;  // in a layout or a refusal, at most
constexpr uint64_t kGuestReportBytes = 512;               // in a report, at most
constexpr uint64_t kGuestElements = uint64_t{1} << 34;    // trained and aside together, at most

using GuestRecordBytes = std::array<std::byte, kGuestRecordBytes>;

GuestRecordBytes encode(const GuestRecord&);

/// Refuses, with one line: another length; anything but one segment with one such struct; another
/// version; an unknown kind or flag; a dtype other than fp32; a text above kGuestTextBytes in a
/// join, a refusal or a checkpoint's result, or above kGuestReportBytes in a report.
Result<GuestRecord> decode_guest(std::span<const std::byte> bytes);

/// Refuses, with one line: a line with an unknown first word or out of order; an outer rate that is
/// not above 0; a momentum outside [0, 1); a layout that trains nothing; a name that is empty,
/// repeated or has control characters; a size that is no number or negative; more than
/// kGuestElements in all; a tied name that is no view of a complete tensor.
Result<GuestLayout> read_guest_layout(std::string_view text);

/// Refuses, with one line: no line or more than kGuestMeasures; an invalid or repeated name; a
/// value that is no finite number.
Result<GuestReport> read_guest_report(std::string_view text);

}  // namespace grapevine
