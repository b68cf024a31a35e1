#include "messages/guest_codec.hpp"

#include <fmt/ranges.h>

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "kernels/base/spec.hpp"
#include "messages/guest.capnp.h"

namespace grapevine {
namespace {

constexpr size_t kRecordStructWords = 8;
constexpr size_t kRecordSegmentWords = 1 + kRecordStructWords;
static_assert(kGuestRecordBytes == (1 + kRecordSegmentWords) * sizeof(capnp::word));
static_assert(capnp::_::structSize<wire::GuestRecord>().data == kRecordStructWords);
static_assert(capnp::_::structSize<wire::GuestRecord>().pointers == 0);
static_assert(std::endian::native == std::endian::little);
static_assert(int(wire::GuestKind::REPORT) == int(GuestKind::report) && kGuestKinds == 16);
static_assert(int(wire::GuestKind::SHARE) == int(GuestKind::share));
static_assert(int(wire::GuestKind::SAVED) == int(GuestKind::saved));
static_assert(int(wire::GuestKind::CHECKPOINT) == int(GuestKind::checkpoint));
static_assert(int(wire::GuestKind::WAIT) == int(GuestKind::wait));
static_assert(int(wire::GuestKind::BYE) == int(GuestKind::bye));
static_assert(int(wire::GuestKind::LEAVE) == int(GuestKind::leave));
static_assert(int(wire::GuestKind::FINISH) == int(GuestKind::finish));
static_assert(int(wire::GuestKind::KEPT) == int(GuestKind::kept));
static_assert(int(wire::GuestKind::KEEP) == int(GuestKind::keep));
static_assert(int(wire::GuestKind::MEAN) == int(GuestKind::mean));
static_assert(int(wire::GuestKind::FRONT) == int(GuestKind::front));
static_assert(int(wire::GuestKind::STEP) == int(GuestKind::step));
static_assert(int(wire::GuestKind::REFUSED) == int(GuestKind::refused));
static_assert(int(wire::GuestKind::WELCOME) == int(GuestKind::welcome));

constexpr uint16_t kFlags = kGuestResumed | kGuestEnd | kGuestNotFinite | kGuestNotSaved |
                            kGuestAside | kGuestOver | kGuestMoved | kGuestEmpty | kGuestSeat;

// The table of a message with one segment, and the pointer to its root.
constexpr std::array<uint8_t, 16> kRecordPrefix{0, 0, 0, 0, kRecordSegmentWords, 0, 0, 0,
                                                0, 0, 0, 0, kRecordStructWords,  0, 0, 0};

Error record_refused(const std::string& what, uint64_t value, const std::string& accepted) {
  return world_error(fmt::format("record refused: {} {}, accepted: {}", what, value, accepted));
}

/// Removes the text before the next `end`, and that `end`, from the front; without an `end`, all of
/// the text. Returns the text.
std::string_view take_until(char end, std::string_view& text) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

bool is_plain(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) return false;
  return true;
}

bool is_measure(std::string_view name) {
  return !name.empty() && name.size() <= kGuestMeasureName && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

/// The first words of the lines of a layout, in their order.
constexpr std::array<std::string_view, 4> kParts{"trained", "aside", "aside64", "tied"};
constexpr size_t kTied = 3;
constexpr std::string_view kOuter = "outer";

/// Reads the lines of a layout in order.
class LayoutReader {
 public:
  Status read(std::string_view line);
  Result<GuestLayout> whole() &&;

 private:
  Status read_outer(std::string_view numbers);
  Status read_tensor(std::string name, std::string_view sizes);
  Status read_tied(std::string name, std::string_view rest);
  Error bad(const std::string& what) const {
    return world_error(fmt::format("layout refused: line {}: {}", line_, what));
  }

  GuestLayout layout_;
  std::set<std::string> names_;
  std::map<std::string, uint64_t, std::less<>> elements_;  // of tensors that are not tied
  uint64_t all_ = 0;
  size_t line_ = 0, part_ = 0;  // part: index of the last one in kParts
};

Status LayoutReader::read(std::string_view line) {
  ++line_;
  if (!is_plain(line)) return bad("control characters");
  if (line_ == 1) {
    layout_.run = line;
    return Done{};
  }
  const std::string_view word = take_until(' ', line);
  if (word == kOuter && line_ == 2) return read_outer(line);
  const auto part = static_cast<size_t>(std::ranges::find(kParts, word) - kParts.begin());
  if (part == kParts.size())
    return bad(fmt::format("another first word, accepted: {}", fmt::join(kParts, ", ")));
  if (part < part_) return bad(fmt::format("{} after {}", kParts[part], kParts[part_]));
  part_ = part;
  std::string name(take_until(' ', line));
  if (name.empty()) return bad("no name");
  if (!names_.insert(name).second) return bad("a name that occurs twice");
  return part == kTied ? read_tied(std::move(name), line) : read_tensor(std::move(name), line);
}

Status LayoutReader::read_outer(std::string_view numbers) {
  const auto lr = number_of<double>(take_until(' ', numbers));
  const auto momentum = number_of<double>(take_until(' ', numbers));
  const bool fits = lr && momentum && numbers.empty() && std::isfinite(*lr) && *lr > 0 &&
                    *momentum >= 0 && *momentum < 1;
  if (!fits)
    return bad(
        "wrong numbers, accepted: outer LR MOMENTUM, LR above 0, MOMENTUM from 0 to below 1");
  layout_.outer = {*lr, *momentum};
  return Done{};
}

/// Checks that all elements so far, and the strides of an empty tensor, stay within the bound.
Status LayoutReader::read_tensor(std::string name, std::string_view sizes) {
  GuestLayout::Tensor tensor{std::move(name), {}};
  uint64_t elements = 1, extent = 1;  // extent: a size of 0 counts as 1
  while (!sizes.empty()) {
    const auto size = number_of<int64_t>(take_until(' ', sizes));
    if (!size || *size < 0) return bad("a size that is no number, accepted: 0 or more");
    const auto count = std::max<uint64_t>(1, static_cast<uint64_t>(*size));
    if (extent > kGuestElements / count)
      return bad(fmt::format("a tensor too large, accepted: {} numbers in all", kGuestElements));
    extent *= count;
    elements *= static_cast<uint64_t>(*size);
    tensor.shape.push_back(*size);
  }
  all_ += elements;
  if (all_ > kGuestElements)
    return bad(fmt::format("too many numbers, accepted: {} in all", kGuestElements));
  elements_.emplace(tensor.name, elements);
  std::vector<GuestLayout::Tensor>* const of[] = {&layout_.trained, &layout_.aside,
                                                  &layout_.aside64};
  of[part_]->push_back(std::move(tensor));
  return Done{};
}

Status LayoutReader::read_tied(std::string name, std::string_view rest) {
  GuestLayout::Tied tied{std::move(name), std::string(take_until(' ', rest)), {}, {}};
  const auto of = elements_.find(tied.of);
  if (of == elements_.end()) return bad("tied to a tensor that does not exist");
  uint64_t elements = 1, last = 0;  // last: its furthest element
  const bool is_empty = of->second == 0;
  while (!rest.empty()) {
    const std::string_view side = take_until(' ', rest);
    const size_t colon = side.find(':');
    const auto size = number_of<int64_t>(side.substr(0, colon));
    const auto stride =
        colon == side.npos ? std::nullopt : number_of<int64_t>(side.substr(colon + 1));
    if (!size || *size < 0 || !stride || *stride < 0)
      return bad("a side of another form, accepted: SIZE:STRIDE");
    const auto count = static_cast<uint64_t>(*size), step = static_cast<uint64_t>(*stride);
    if (count > kGuestElements || step > kGuestElements) return bad("tied beyond its tensor");
    if (!is_empty && count > 1 &&
        (elements > of->second / count || step > of->second / (count - 1)))
      return bad("tied beyond its tensor");
    elements = is_empty ? elements * std::min<uint64_t>(count, 1) : elements * count;
    last += is_empty || count <= 1 ? 0 : (count - 1) * step;
    tied.shape.push_back(*size);
    tied.strides.push_back(*stride);
    if (last > of->second) return bad("tied beyond its tensor");
  }
  if (elements != of->second || (elements > 0 && last >= elements))
    return bad("tied to a part of its tensor");
  layout_.tied.push_back(std::move(tied));
  return Done{};
}

Result<GuestLayout> LayoutReader::whole() && {
  if (layout_.trained_elements() == 0)
    return world_error("layout refused: nothing is trained, accepted: one number or more");
  return std::move(layout_);
}

}  // namespace

uint64_t GuestLayout::elements(const std::vector<Tensor>& tensors) {
  uint64_t sum = 0;
  for (const Tensor& tensor : tensors) {
    uint64_t product = 1;
    for (const int64_t size : tensor.shape)
      product *= static_cast<uint64_t>(size);
    sum += product;
  }
  return sum;
}

uint64_t GuestLayout::aside64_at() const {
  const uint64_t end = sizeof(float) * (elements(trained) + elements(aside));
  return (end + sizeof(double) - 1) / sizeof(double) * sizeof(double);
}

GuestRecordBytes encode(const GuestRecord& r) {
  alignas(capnp::word) std::array<uint64_t, kRecordSegmentWords> segment{};
  capnp::FlatMessageBuilder message(
      kj::arrayPtr(reinterpret_cast<capnp::word*>(segment.data()), segment.size()));
  auto root = message.initRoot<wire::GuestRecord>();
  root.setVersion(kGuestVersion);
  root.setKind(static_cast<uint16_t>(r.kind));
  root.setFlags(r.flags);
  root.setRank(r.rank);
  root.setRanks(r.ranks);
  root.setNumber(r.number);
  root.setRunSteps(r.run_steps);
  root.setExchanges(r.exchanges);
  root.setCount(r.count);
  root.setValue(r.value);
  root.setEpoch(r.epoch);
  GuestRecordBytes bytes;
  std::memcpy(bytes.data(), kRecordPrefix.data(), sizeof(capnp::word));
  std::memcpy(bytes.data() + sizeof(capnp::word), segment.data(), sizeof segment);
  return bytes;
}

Result<GuestRecord> decode_guest(std::span<const std::byte> bytes) {
  if (bytes.size() != kGuestRecordBytes)
    return record_refused("bytes", bytes.size(), std::to_string(kGuestRecordBytes));
  if (std::memcmp(bytes.data(), kRecordPrefix.data(), kRecordPrefix.size()) != 0)
    return world_error("record refused: malformed, not one segment with one record");
  alignas(capnp::word) std::array<uint64_t, kRecordSegmentWords> segment;
  std::memcpy(segment.data(), bytes.data() + sizeof(capnp::word), sizeof segment);
  // The prefix contains the only pointer, so this cannot leave the segment.
  const auto root = capnp::readMessageUnchecked<wire::GuestRecord>(
      reinterpret_cast<const capnp::word*>(segment.data()));
  if (root.getVersion() != kGuestVersion)
    return record_refused("version", root.getVersion(), std::to_string(kGuestVersion));
  if (root.getKind() >= kGuestKinds)
    return record_refused("kind", root.getKind(), fmt::format("0 to {}", kGuestKinds - 1));
  if ((root.getFlags() & ~kFlags) != 0)
    return record_refused("flags", root.getFlags(), fmt::format("0 to {}", kFlags));
  if (root.getDtype() != 0) return record_refused("dtype", root.getDtype(), "0 (f32)");
  GuestRecord r;
  r.kind = static_cast<GuestKind>(root.getKind());
  r.flags = root.getFlags();
  r.rank = root.getRank();
  r.ranks = root.getRanks();
  r.number = root.getNumber();
  r.run_steps = root.getRunSteps();
  r.exchanges = root.getExchanges();
  r.count = root.getCount();
  r.value = root.getValue();
  r.epoch = root.getEpoch();
  const bool has_text =
      r.kind == GuestKind::join || r.kind == GuestKind::refused || r.kind == GuestKind::saved;
  if (has_text && r.count > kGuestTextBytes)
    return record_refused("bytes of text", r.count, fmt::format("at most {}", kGuestTextBytes));
  if (r.kind == GuestKind::report && r.count > kGuestReportBytes)
    return record_refused("bytes of text", r.count, fmt::format("at most {}", kGuestReportBytes));
  return r;
}

Result<GuestLayout> read_guest_layout(std::string_view text) {
  LayoutReader reader;
  while (!text.empty())
    if (Status ok = reader.read(take_until('\n', text)); !ok) return ok.error();
  return std::move(reader).whole();
}

Result<GuestReport> read_guest_report(std::string_view text) {
  GuestReport report;
  const auto bad = [&report](const std::string& what) {
    return world_error(fmt::format("report refused: line {}: {}", report.size() + 1, what));
  };
  do {
    std::string_view line = take_until('\n', text);
    const std::string_view name = take_until(' ', line);
    if (!is_measure(name))
      return bad(fmt::format("no name, accepted: 1 to {} characters a to z, 0 to 9 and _",
                             kGuestMeasureName));
    const auto value = number_of<double>(line);
    if (!value || !std::isfinite(*value)) return bad("no finite number, accepted: NAME VALUE");
    if (report.contains(name)) return bad("a name that occurs twice");
    if (report.size() == kGuestMeasures)
      return bad(fmt::format("too many names, accepted: at most {}", kGuestMeasures));
    report.emplace(name, *value);
  } while (!text.empty());
  return report;
}

}  // namespace grapevine
