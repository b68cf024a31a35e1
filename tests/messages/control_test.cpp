// The control codec: what is encoded comes back, and what a stranger sends costs one line.
#include "messages/codec.hpp"
#include "messages/control_codec.hpp"
#include "messages/rate_bounds.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "kernels/base/random.hpp"
#include "tests/catch.hpp"
#include "tests/messages/control_messages.hpp"

using namespace grapevine;

namespace {

using Bytes = std::vector<std::byte>;

Bytes encoded(const ControlMessage& m) {
  auto bytes = encode_control(m);
  REQUIRE(bytes);
  return *std::move(bytes);
}

std::string said_of(std::span<const std::byte> bytes) {
  const auto decoded = decode_control(bytes);
  return decoded ? std::string("accepted: ") + name_of(*decoded) : decoded.error().message;
}

std::string refusal(const ControlMessage& m) {
  const auto bytes = encode_control(m);
  return bytes ? "accepted" : bytes.error().message;
}

rc::Gen<std::string> text(size_t most) {
  return rc::gen::resize(static_cast<int>(most),
                         rc::gen::container<std::string>(rc::gen::inRange<char>(0x20, 0x7f)));
}

rc::Gen<std::string> name() {
  return rc::gen::map(text(20), [](std::string s) { return "n" + std::move(s); });
}

template <size_t N>
std::array<uint8_t, N> raw() {
  std::array<uint8_t, N> bytes;
  for (uint8_t& byte : bytes)
    byte = *rc::gen::arbitrary<uint8_t>();
  return bytes;
}

Member random_member() {
  const auto number = rc::gen::arbitrary<uint32_t>();
  const auto state = [] { return static_cast<MemberState>(*rc::gen::inRange(0, 4)); };
  Member m;
  m.node = *name();
  m.incarnation = *number;
  m.refutations = *number;
  m.state = state();
  m.address = *text(30);
  m.first_rank = *number / 2;
  m.ranks = *number / 2;
  m.ready = *rc::gen::arbitrary<bool>();
  m.finished = *rc::gen::arbitrary<bool>();
  m.accuser = *number;
  m.key = raw<32>();
  m.gone = *rc::gen::container<std::vector<RankGone>>(
      *rc::gen::inRange<size_t>(0, kMaxGone + 1),
      rc::gen::map(rc::gen::arbitrary<uint32_t>(), [](uint32_t n) {
        return RankGone{n, n % (kIncarnationsAtMost + 1), n % 2 == 0};
      }));
  m.unreachable = *rc::gen::container<std::vector<uint64_t>>(
      *rc::gen::inRange<size_t>(0, kMaxUnreachable + 1), rc::gen::arbitrary<uint64_t>());
  m.mean = {*rc::gen::arbitrary<uint64_t>(), *rc::gen::arbitrary<uint64_t>()};
  m.last_word = state();
  m.generation = *number;
  m.stops = *rc::gen::arbitrary<bool>();
  m.means_asked = *number;
  m.life = *rc::gen::arbitrary<uint64_t>();
  m.signature = raw<64>();
  return m;
}

RateFact random_rates() {
  RateFact fact{*rc::gen::arbitrary<uint64_t>(),
                *rc::gen::arbitrary<uint32_t>(),
                *rc::gen::arbitrary<uint32_t>(),
                *rc::gen::arbitrary<uint64_t>(),
                {},
                raw<64>()};
  for (int k = *rc::gen::inRange<int>(0, kMaxRates + 1); k > 0; --k)
    fact.rates.push_back(
        {*rc::gen::arbitrary<uint32_t>(), *rc::gen::arbitrary<uint32_t>(),
         std::clamp(std::abs(*rc::gen::arbitrary<double>()), kLeastRate, kMostRate)});
  return fact;
}

ControlMessage random_message() {
  switch (*rc::gen::inRange(0, 4)) {
    case 0: {
      MembershipPacket m;
      m.kind = static_cast<MembershipPacket::Kind>(*rc::gen::inRange(0, 6));
      m.sequence = *rc::gen::arbitrary<uint64_t>();
      m.target = *text(63);
      m.graph = {*rc::gen::inRange<uint64_t>(1, 1 << 30), *text(63), *text(300), raw<32>(),
                 raw<64>()};
      for (int k = *rc::gen::inRange(0, 20); k > 0; --k)
        m.news.push_back(random_member());
      for (int k = *rc::gen::inRange(0, 20); k > 0; --k)
        m.rates.push_back(random_rates());
      return m;
    }
    case 1:
      return FetchState{*rc::gen::arbitrary<uint64_t>(), *rc::gen::arbitrary<uint32_t>(),
                        *rc::gen::arbitrary<std::vector<uint32_t>>()};
    case 2:
      return Hello{*rc::gen::arbitrary<uint16_t>(),
                   LinkPurpose::console,
                   *text(63),
                   *rc::gen::arbitrary<uint64_t>(),
                   *text(200),
                   *name(),
                   *rc::gen::arbitrary<uint32_t>(),
                   *text(200),
                   raw<32>(),
                   raw<16>(),
                   *text(kSettingsBytes),
                   *text(kSettingsBytes)};
    default: return ConsoleReply{*rc::gen::arbitrary<bool>(), true, *text(5000)};
  }
}

/// The largest packet that the bounds allow.
MembershipPacket full_packet() {
  MembershipPacket m;
  m.target = std::string(kNameBytes, 't');
  m.graph = {~uint64_t{0}, std::string(kNameBytes, 'g'), std::string(kSpecBytes, 's'), {1}, {2}};
  Member full;
  full.node = std::string(kNameBytes, 'n');
  full.address = std::string(kAddressBytes, 'a');
  full.gone.assign(kMaxGone, {3, 1, true});
  full.unreachable.assign(kMaxUnreachable, 7);
  m.news.assign(kMaxNews, full);
  m.work.assign(kMaxWorkFacts, {1, 2, 3, 4, 5, {}});
  m.rates.assign(kMaxRateFacts, {1, 2, 3, 4, std::vector<EdgeRate>(kMaxRates, {1, 2, 3.5}), {}});
  return m;
}

}  // namespace

TEST_CASE("a control message of each kind comes back as it was") {
  const auto messages = one_of_each();
  REQUIRE(messages.size() == std::variant_size_v<ControlMessage>);
  for (size_t k = 0; k < messages.size(); ++k) {
    CHECK(messages[k].index() == k);
    const Bytes bytes = encoded(messages[k]);
    CHECK(bytes.size() % 8 == 0);
    const auto decoded = decode_control(bytes);
    INFO(name_of(messages[k]) << ": " << said_of(bytes));
    REQUIRE(decoded);
    CHECK(*decoded == messages[k]);
  }
}

TEST_CASE("random control messages come back as they were") {
  CHECK(rc::check([] {
    const ControlMessage m = random_message();
    const auto bytes = encode_control(m);
    RC_ASSERT(bool(bytes));
    const auto decoded = decode_control(*bytes);
    RC_ASSERT(bool(decoded));
    RC_ASSERT(*decoded == m);
  }));
}

TEST_CASE("the largest message of each kind fits into a message's bound") {
  CHECK(encoded(full_packet()).size() <= kControlBytes);
  CHECK(encoded(FetchState{1, 2, std::vector<uint32_t>(kMaxPieces)}).size() <= kControlBytes);
  Manifest manifest;
  manifest.refused = std::string(kLineBytes, 'r');
  manifest.hashes.resize(kMaxPieces);
  CHECK(encoded(manifest).size() <= kControlBytes);
  CHECK(encoded(ConsoleReply{true, true, std::string(kTextBytes, 'x')}).size() <= kControlBytes);
  const std::string bytes(kTextBytes, '\xff');
  CHECK(encoded(ConsoleReply{true, true, "", bytes, 1}).size() <= kControlBytes);
}

TEST_CASE("one above a bound is refused, by the sender too, with the bound") {
  auto packet = full_packet();
  packet.news.push_back(packet.news.front());
  CHECK(refusal(packet) == "message refused: news of 33 elements, accepted: at most 32");
  packet = full_packet();
  packet.rates.push_back({});
  CHECK(refusal(packet) == "message refused: rateFacts of 33 elements, accepted: at most 32");
  packet = full_packet();
  packet.rates.back().rates.push_back({1, 2, 3});
  CHECK(refusal(packet) == "message refused: rates of 17 elements, accepted: at most 16");
  packet = full_packet();
  packet.news.back().address += 'a';
  CHECK(refusal(packet) == "message refused: address of 256 bytes, accepted: at most 255");
  CHECK(refusal(Hello{}) == "message refused: node of 0 bytes, accepted: at least 1");
  CHECK(refusal(Refusal{std::string(512, 'r')}) ==
        "message refused: refusal of 512 bytes, accepted: at most 511");
  CHECK(refusal(FetchState{1, 2, std::vector<uint32_t>(kMaxPieces + 1)}) ==
        "message refused: pieces of 4097 elements, accepted: at most 4096");
  CHECK(refusal(ConsoleReply{true, true, "x", std::string(kTextBytes, 'x'), 1}) ==
        "message refused: bytes of 49153 elements, accepted: at most 49152");
  CHECK(refusal(MeanAsk{MeanPiece::Way::up, false, 1, 3, 2}) ==
        "message refused: pieces that end before they begin");
}

TEST_CASE("what a stranger writes over a bound or a value is refused at the other end") {
  // A packet of one member, whose bytes are changed as a stranger would.
  MembershipPacket m;
  m.news.emplace_back();
  m.news[0].node = "node";
  m.news[0].address = "address";
  m.rates = {{1, 2, 3, 4, {{1, 2, 3.5}}, {}}};
  const Bytes good = encoded(m);
  const auto with = [&](const void* was, const void* is, size_t size) {
    Bytes bytes = good;
    for (size_t at = 0; at + size <= bytes.size(); ++at) {
      if (std::memcmp(bytes.data() + at, was, size) != 0) continue;
      std::memcpy(bytes.data() + at, is, size);
      return said_of(bytes);
    }
    return std::string("not found");
  };
  CHECK(with("node", "no\ne", 4) ==
        "message refused: node with byte 10 at 2, accepted: printable ASCII");
  CHECK(with("address", "add\x1b[2J", 7) ==
        "message refused: address with byte 27 at 3, accepted: printable ASCII");
  for (const double bad :
       {std::numeric_limits<double>::infinity(), -1.0, std::nan(""), 0.0, 1e-310, 1e300}) {
    const double was = 3.5;
    CHECK(with(&was, &bad, sizeof bad) == "message refused: perSecond, accepted: 1e-9 to 1e9");
  }
}

TEST_CASE("a graph that nobody has asked for has no owner, whatever a stranger writes beside it") {
  MembershipPacket m;
  m.graph.version = 0x123456789a;
  m.graph.key.fill(1);
  m.graph.signature.fill(2);
  Bytes bytes = encoded(m);
  size_t found = 0;
  for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    if (std::memcmp(bytes.data() + at, &m.graph.version, 8) != 0) continue;
    std::memset(bytes.data() + at, 0, 8);
    ++found;
  }
  REQUIRE(found == 1);
  const auto decoded = decode_control(bytes);
  REQUIRE(decoded);
  CHECK(std::get<MembershipPacket>(*decoded).graph == GraphSpec{});
}

TEST_CASE("a frame on the control link passes the frame's codec and carries no payload") {
  FrameHeader h;
  h.kind = FrameKind::data;
  h.count = 1;
  CHECK(refusal(h) == "message refused: frame with a payload, accepted: none on a control link");
  h.count = 0;
  Bytes bytes = encoded(h);
  const uint64_t count = 7;  // at 64 of the header, which ends the message
  std::memcpy(bytes.data() + bytes.size() - kHeaderBytes + 64, &count, sizeof count);
  CHECK(said_of(bytes) ==
        "message refused: frame refused: payload elements 7, accepted: at most 0");
}

TEST_CASE("what is said about a communicator comes back as it was, and is cut short by nobody") {
  for (const NcclTalk& talk : one_talk_of_each()) {
    INFO("talk " << talk.what.index());
    const Bytes bytes = encoded(talk);
    const auto decoded = decode_control(bytes);
    REQUIRE(decoded);
    CHECK(*decoded == ControlMessage(talk));
    for (size_t size = 0; size < bytes.size(); ++size)
      CHECK(said_of({bytes.data(), size}).find("message refused: ") == 0);
  }
}

TEST_CASE("what is said about a communicator is refused where its numbers or headers are none") {
  NcclRequest request = std::get<NcclRequest>(one_talk_of_each()[2].what);
  const auto with = [&](auto&& change) {
    NcclRequest changed = request;
    change(changed);
    const std::string sent = refusal(NcclTalk{1, changed});
    const std::string answered = refusal(NcclTalk{1, NcclGrant{changed.number, changed.header}});
    CHECK(sent == answered);
    return sent;
  };
  const std::string kNumber = "message refused: number of an exchange, accepted: 1 to 2^53";
  CHECK(with([](auto& r) { r.number = 0; }) == kNumber);
  CHECK(with([](auto& r) { r.number = kMaxCount + 1; }) == kNumber);
  CHECK(refusal(NcclTalk{1, NcclDecline{0}}) == kNumber);
  const std::string kHeader =
      "message refused: header of an exchange, accepted: one with a payload";
  CHECK(with([](auto& r) { r.header.count = 0; }) == kHeader);
  CHECK(with([](auto& r) { r.header.kind = FrameKind::offer; }) == kHeader);
  CHECK(with([](auto& r) { r.header.count = kMaxPayloadBytes; }) == kHeader);
  CHECK(with([](auto& r) { r.header.alpha_tilde = -1; }) ==
        "message refused: alpha_tilde, accepted: finite and at least 0");
  CHECK(with([](auto& r) { r.header.bound = std::nanf(""); }) ==
        "message refused: bound, accepted: at least 0");
}

TEST_CASE("an id that is too short, a kind that is none, and a header that is cut are refused") {
  const auto changed = [](size_t talk, size_t at, auto is) {
    Bytes bytes = encoded(one_talk_of_each()[talk]);
    std::memcpy(bytes.data() + at, &is, sizeof is);
    return said_of(bytes);
  };
  // A list of bytes has its length in the upper half of its pointer; after the table, the root
  // pointer and the root's two words comes the talk, whose third pair of bytes is the kind.
  const Bytes connect = encoded(one_talk_of_each()[0]);
  const auto find = [&](const Bytes& bytes, uint32_t value) {
    size_t at = 0;
    for (uint32_t here = 0; here != value; at += 4)
      std::memcpy(&here, bytes.data() + at, sizeof here);
    return at - 4;
  };
  const auto length = [](uint32_t bytes) { return bytes << 3 | 2; };
  CHECK(changed(0, find(connect, length(128)), length(127)) ==
        "message refused: id of 127 bytes, accepted: 128");
  const Bytes request = encoded(one_talk_of_each()[2]);
  CHECK(changed(2, find(request, length(88)), length(87)).find("message refused: frame refused") ==
        0);
  for (uint16_t kind = 0; kind < 16; ++kind) {
    const std::string said = changed(5, 36, kind);
    CHECK((kind > 4) ==
          (said == "message refused: talk " + std::to_string(kind) + ", accepted: 0 to 4"));
  }
}

TEST_CASE("an unknown kind of message is refused by its number") {
  Bytes bytes = encoded(Bye{});
  for (const uint16_t kind : {3, 12, 15, 0xffff}) {  // 3, 12: words of earlier versions
    std::memcpy(bytes.data() + 16, &kind, sizeof kind);
    CHECK(said_of(bytes) ==
          "message refused: kind " + std::to_string(kind) + ", accepted: 0 to 14, but 3 and 12");
  }
}

TEST_CASE("a cut message and one with something after it are refused") {
  for (const ControlMessage& m : one_of_each()) {
    const Bytes bytes = encoded(m);
    for (size_t size = 0; size < bytes.size(); ++size)
      CHECK(said_of({bytes.data(), size}).find("message refused: ") == 0);
    Bytes longer = bytes;
    longer.resize(bytes.size() + 8);
    CHECK(said_of(longer) == "message refused: something follows the message");
  }
  CHECK(said_of(Bytes(kControlBytes + 8)).find("message refused: 65544 bytes") == 0);
}

TEST_CASE("a control message is read from any address") {
  const Bytes bytes = encoded(one_of_each()[6]);
  for (size_t shift = 0; shift < 8; ++shift) {
    Bytes room(bytes.size() + 8);
    std::memcpy(room.data() + shift, bytes.data(), bytes.size());
    const auto decoded = decode_control({room.data() + shift, bytes.size()});
    REQUIRE(decoded);
    CHECK(*decoded == one_of_each()[6]);
  }
}

TEST_CASE("flipped bits are refused in one line, or decode to a message that encodes again") {
  Random random(1, 0, Purpose::test);
  const auto messages = one_of_each();
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = encoded(messages[random.below(static_cast<uint32_t>(messages.size()))]);
    for (uint32_t flips = 1 + random.below(4); flips > 0; --flips)
      bytes[random.below(static_cast<uint32_t>(bytes.size()))] ^=
          static_cast<std::byte>(1u << random.below(8));
    const auto decoded = decode_control(bytes);
    if (!decoded) {
      CHECK(decoded.error().message.find('\n') == std::string::npos);
      continue;
    }
    ++accepted;
    CHECK(encode_control(*decoded));
  }
  CHECK(accepted > 100);
  CHECK(accepted < 19900);
}

TEST_CASE("a list that claims half a milliard members of no size is refused unread") {
  const Bytes bytes = encoded(MembershipPacket{});
  std::vector<uint64_t> words(bytes.size() / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  // After the table come the root pointer, the root's two words, three words of numbers, and the
  // pointers of target, graphNode, topology and news.
  constexpr size_t kNewsAt = 10;
  const uint64_t offset = words.size() - kNewsAt - 1;
  words[kNewsAt] = offset << 2 | 1 | uint64_t{7} << 32;  // a list of structs in 0 words
  words.push_back((uint64_t{1} << 31) - 4);              // its tag: that many, without a word
  words[0] += uint64_t{1} << 32;                         // one word more in the segment
  CHECK(said_of(std::as_bytes(std::span(words))) == "message refused: malformed");
}
