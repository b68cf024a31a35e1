#include "messages/guest_codec.hpp"

#include <fmt/core.h>

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <bit>
#include <cstring>
#include <set>

#include "kernels/base/spec.hpp"
#include "messages/guest.capnp.h"

namespace grapevine {
namespace {

constexpr size_t kStructWords = 8;
constexpr size_t kSegmentWords = 1 + kStructWords;
static_assert(kGuestRecordBytes == (1 + kSegmentWords) * sizeof(capnp::word));
static_assert(capnp::_::structSize<wire::GuestRecord>().data == kStructWords);
static_assert(capnp::_::structSize<wire::GuestRecord>().pointers == 0);
static_assert(std::endian::native == std::endian::little);
static_assert(int(wire::GuestKind::SAVED) == int(GuestKind::saved) && kGuestKinds == 14);
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

constexpr uint16_t kFlags = kGuestResumed | kGuestEnd | kGuestNotFinite | kGuestNotSaved;

// The table of a message of one segment, and the pointer to its root.
constexpr std::array<uint8_t, 16> kPrefix{0, 0, 0, 0, kSegmentWords, 0, 0, 0,
                                          0, 0, 0, 0, kStructWords,  0, 0, 0};

Error refused(const std::string& what, uint64_t value, const std::string& accepted) {
  return world_error(fmt::format("record refused: {} {}, accepted: {}", what, value, accepted));
}

Error bad_layout(size_t line, const std::string& what) {
  return world_error(fmt::format("layout refused: line {}: {}", line, what));
}

/// What is before the next space; the text goes on behind it.
std::string_view next_word(std::string_view& text) {
  const size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

bool is_plain(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) return false;
  return true;
}

/// The sizes of a tensor, whose elements and those before it stay within the bound.
Status read_shape(std::string_view text, size_t line, GuestLayout::Tensor& tensor,
                  uint64_t& elements) {
  uint64_t product = 1;
  while (!text.empty()) {
    const std::string_view word = next_word(text);
    const auto size = number_of<int64_t>(word);
    if (!size || *size < 0)
      return bad_layout(line, "a size that is no number, accepted: 0 or more");
    const auto count = static_cast<uint64_t>(*size);
    if (count > 0 && product > kGuestElements / count)
      return bad_layout(
          line, fmt::format("a tensor too large, accepted: {} numbers in all", kGuestElements));
    product *= count;
    tensor.shape.push_back(*size);
  }
  elements += product;
  if (elements <= kGuestElements) return Done{};
  return bad_layout(line, fmt::format("too many numbers, accepted: {} in all", kGuestElements));
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

GuestRecordBytes encode(const GuestRecord& r) {
  alignas(capnp::word) std::array<uint64_t, kSegmentWords> segment{};
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
  std::memcpy(bytes.data(), kPrefix.data(), sizeof(capnp::word));
  std::memcpy(bytes.data() + sizeof(capnp::word), segment.data(), sizeof segment);
  return bytes;
}

Result<GuestRecord> decode_guest(std::span<const std::byte> bytes) {
  if (bytes.size() != kGuestRecordBytes)
    return refused("bytes", bytes.size(), std::to_string(kGuestRecordBytes));
  if (std::memcmp(bytes.data(), kPrefix.data(), kPrefix.size()) != 0)
    return world_error("record refused: malformed, not one segment with one record");
  alignas(capnp::word) std::array<uint64_t, kSegmentWords> segment;
  std::memcpy(segment.data(), bytes.data() + sizeof(capnp::word), sizeof segment);
  // The prefix holds the only pointer there is, so this cannot leave the segment.
  const auto root = capnp::readMessageUnchecked<wire::GuestRecord>(
      reinterpret_cast<const capnp::word*>(segment.data()));
  if (root.getVersion() != kGuestVersion)
    return refused("version", root.getVersion(), std::to_string(kGuestVersion));
  if (root.getKind() >= kGuestKinds) return refused("kind", root.getKind(), "0 to 13");
  if ((root.getFlags() & ~kFlags) != 0) return refused("flags", root.getFlags(), "0 to 15");
  if (root.getDtype() != 0) return refused("dtype", root.getDtype(), "0 (f32)");
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
    return refused("bytes of text", r.count, fmt::format("at most {}", kGuestTextBytes));
  return r;
}

Result<GuestLayout> read_guest_layout(std::string_view text) {
  GuestLayout layout;
  std::set<std::string_view> names;
  uint64_t elements = 0;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!is_plain(line)) return bad_layout(number, "control characters");
    if (number == 1) {
      layout.run = line;
      continue;
    }
    const std::string_view part = next_word(line), name = next_word(line);
    const bool trained = part == "trained";
    if (!trained && part != "aside")
      return bad_layout(number, "neither trained nor aside, accepted: trained NAME SIZES");
    if (trained && !layout.aside.empty()) return bad_layout(number, "trained behind aside");
    if (name.empty()) return bad_layout(number, "no name");
    if (!names.insert(name).second) return bad_layout(number, "a name for the second time");
    GuestLayout::Tensor tensor{std::string(name), {}};
    if (Status shape = read_shape(line, number, tensor, elements); !shape) return shape.error();
    (trained ? layout.trained : layout.aside).push_back(std::move(tensor));
  }
  if (layout.trained_elements() == 0)
    return world_error("layout refused: nothing is trained, accepted: one number or more");
  return layout;
}

}  // namespace grapevine
