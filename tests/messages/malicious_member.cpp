#include "tests/messages/malicious_member.hpp"

#include <algorithm>
#include <limits>

#include "messages/codec.hpp"
#include "messages/control_codec.hpp"

namespace grapevine::test {

namespace {

constexpr uint32_t kEdges[] = {0,        1,           2,           3,           64,
                               1 << 16,  0x00ffffffu, 0x01000000u, 0x01000001u, 0x7fffffffu,
                               1u << 31, 0xfffffffeu, 0xffffffffu};
constexpr size_t kFramesKept = 64;

}  // namespace

MaliciousMember::MaliciousMember(uint64_t seed, std::string name, std::vector<std::string> others)
    : random_(seed, 6, Purpose::test), name_(std::move(name)), others_(std::move(others)) {}

void MaliciousMember::hear(const MembershipPacket& packet) {
  for (const Member& m : packet.news)
    known_[m.node] = m;
  last_ = packet;
}

void MaliciousMember::hear(const FrameHeader& h) {
  if (frames_.size() >= kFramesKept) frames_.erase(frames_.begin());
  frames_.push_back(h);
}

// --- single values

uint32_t MaliciousMember::word(uint32_t near) {
  switch (random_.below(4)) {
    case 0: return near;
    case 1: return near + random_.below(5) - 2;
    case 2: return kEdges[random_.below(std::size(kEdges))];
    default: return static_cast<uint32_t>(random_.bits()) >> random_.below(32);
  }
}

uint64_t MaliciousMember::long_word(uint64_t near) {
  switch (random_.below(4)) {
    case 0: return near;
    case 1: return near + random_.below(5) - 2;
    case 2: return uint64_t{kEdges[random_.below(std::size(kEdges))]} << 32 * random_.below(2);
    default: return random_.bits() >> random_.below(64);
  }
}

double MaliciousMember::real() {
  constexpr double kReals[] = {
      0, 1e-310, 1e-12, 1, 1e12, 1e300, std::numeric_limits<double>::max()};
  return one_in(2) ? kReals[random_.below(std::size(kReals))] : 10 * random_.uniform();
}

std::string MaliciousMember::name() {
  switch (random_.below(6)) {
    case 0: return name_;
    case 1: return "z" + std::to_string(random_.below(8));
    case 2: return text(kNameBytes - 1) + "z";
    default: return others_[random_.below(static_cast<uint32_t>(others_.size()))];
  }
}

std::string MaliciousMember::text(size_t most) {
  std::string text(one_in(4) ? most : random_.below(12), ' ');
  for (char& c : text)
    c = static_cast<char>(0x20 + random_.below(0x5f));
  return text;
}

// --- messages

void MaliciousMember::twist(Member& m) {
  switch (random_.below(14)) {
    case 0: m.node = name(); break;
    case 1: m.incarnation = word(m.incarnation); break;
    case 2: m.refutations = word(m.refutations); break;
    case 3: m.state = static_cast<MemberState>(random_.below(4)); break;
    case 4:
      m.address = one_in(2) ? text(kAddressBytes) : "h:" + std::to_string(random_.below(70000));
      break;
    case 5: m.first_rank = word(m.first_rank); break;
    case 6: m.ranks = one_in(2) ? random_.below(9) : word(m.ranks); break;
    case 7: m.ready = !m.ready; break;
    case 8: m.finished = !m.finished; break;
    case 9: m.accuser = word(m.accuser); break;
    case 10: m.id = long_word(m.id); break;
    case 11: m.mean = {long_word(m.mean.number), long_word(m.mean.hash)}; break;
    case 12:
      for (uint32_t k = random_.below(one_in(8) ? kMaxGone + 1 : 4); k > 0; --k)
        m.gone.push_back({word(m.first_rank), word(m.incarnation), one_in(2)});
      break;
    default:
      for (uint32_t k = random_.below(kMaxUnreachable + 1); k > 0; --k)
        m.unreachable.push_back(long_word(0));
      if (one_in(2)) std::sort(m.unreachable.begin(), m.unreachable.end());
  }
}

Member MaliciousMember::record() {
  Member m;
  m.node = name();
  m.incarnation = 1 + random_.below(3);
  m.ranks = random_.below(4);
  m.address = "h:" + std::to_string(10000 + random_.below(8));
  if (const auto known = known_.find(m.node); known != known_.end() && !one_in(4))
    m = known->second;
  for (uint32_t k = random_.below(one_in(4) ? 12 : 3); k > 0; --k)
    twist(m);
  if (one_in(3)) ++m.refutations;
  if (one_in(6)) ++m.incarnation;
  return m;
}

MembershipPacket MaliciousMember::packet() {
  MembershipPacket p;
  p.kind = static_cast<MembershipPacket::Kind>(random_.below(6));
  p.sequence = one_in(2) ? random_.below(64) : long_word(last_.sequence);
  p.target = one_in(3) ? std::string() : name();
  for (uint32_t k = random_.below(one_in(8) ? kMaxNews + 1 : 5); k > 0; --k)
    p.news.push_back(record());
  if (one_in(8)) p.graph = {long_word(last_.graph.version), name(), one_in(2) ? "ring" : text(99)};
  for (uint32_t k = random_.below(one_in(8) ? kMaxRates + 1 : 4); k > 0; --k)
    p.rates.push_back({word(0), word(1), real(), long_word(1)});
  if (one_in(6)) p.facts = {long_word(last_.facts.run), word(0), false, word(1)};
  return p;
}

FrameHeader MaliciousMember::header() {
  FrameHeader h;
  if (!frames_.empty() && !one_in(4)) {
    h = frames_[random_.below(static_cast<uint32_t>(frames_.size()))];
    if (one_in(2)) std::swap(h.from, h.to), std::swap(h.from_incarnation, h.to_incarnation);
  }
  for (uint32_t k = random_.below(5); k > 0; --k) {
    switch (random_.below(11)) {
      case 0: h.kind = static_cast<FrameKind>(random_.below(kFrameKinds)); break;
      case 1: h.reason = static_cast<DeclineReason>(random_.below(kDeclineReasons)); break;
      case 2: h.dtype = static_cast<DType>(random_.below(3)); break;
      case 3: h.from = word(h.from); break;
      case 4: h.to = word(h.to); break;
      case 5: h.from_incarnation = word(h.from_incarnation); break;
      case 6: h.to_incarnation = word(h.to_incarnation); break;
      case 7: h.number = long_word(h.number); break;
      case 8: h.part = word(h.part); break;
      case 9: h.bound = real(); break;
      default: h.alpha_tilde = real();
    }
  }
  if (one_in(8)) h.epoch = long_word(h.epoch);
  h.count = carries_payload(h.kind) && one_in(2) ? random_.below(65) : 0;
  return h;
}

Parcel MaliciousMember::parcel() {
  for (;;) {
    Parcel p;
    p.dtype = static_cast<DType>(random_.below(3));
    p.count = 1 + random_.below(64);
    switch (random_.below(3)) {
      case 0:
        p.what = MeanPiece{static_cast<MeanPiece::Way>(random_.below(2)), long_word(last_mean()),
                           word(0), long_word(0), word(2)};
        break;
      case 1: p.what = StatePiece{long_word(1), word(0)}; break;
      default: p.what = PushSumMass{long_word(1), word(0), real()};
    }
    if (decode_parcel(encode(p), kMaxPayloadBytes)) return p;
  }
}

/// The number of one that somebody has said to have.
uint64_t MaliciousMember::last_mean() const {
  for (const auto& [node, m] : known_)
    if (m.mean.number != 0) return m.mean.number;
  return 1;
}

Manifest MaliciousMember::manifest() {
  Manifest m;
  m.transfer = long_word(1);
  if (one_in(3)) m.refused = text(kLineBytes);
  m.dtype = static_cast<DType>(random_.below(3));
  m.vectors = word(2);
  m.count = long_word(6);
  m.ranks = word(1);
  m.gradients = long_word(100);
  m.piece_bytes = long_word(1 << 20);
  m.hashes.resize(random_.below(one_in(8) ? kMaxPieces + 1 : 4), long_word(0));
  return m;
}

ControlMessage MaliciousMember::message() {
  for (;;) {
    ControlMessage m;
    switch (random_.below(12)) {
      case 0: {
        FetchState fetch;
        fetch.what = static_cast<FetchState::What>(random_.below(2));
        fetch.transfer = long_word(1);
        fetch.rank = word(1);
        for (uint32_t k = random_.below(one_in(8) ? kMaxPieces + 1 : 4); k > 0; --k)
          fetch.pieces.push_back(word(0));
        m = fetch;
        break;
      }
      case 1: m = manifest(); break;
      case 4:
        m = MeanAsk{static_cast<MeanPiece::Way>(random_.below(2)), one_in(2), long_word(1), word(0),
                    word(4)};
        break;
      case 5: m = MassReceipt{long_word(1)}; break;
      case 2:
      case 3: {
        FrameHeader h = header();
        h.count = 0;
        m = h;
        break;
      }
      default: m = packet();
    }
    if (encode_control(m)) return m;
  }
}

void outlive(Member& own, const MembershipPacket& said) {
  for (const Member& about : said.news)
    if (about.node == own.node && about.incarnation >= own.incarnation)
      own.incarnation = about.incarnation + (about.state == MemberState::alive ? 0 : 1);
}

MembershipPacket ack_of(const MembershipPacket& ping) {
  MembershipPacket ack;
  ack.kind = MembershipPacket::Kind::ack;
  ack.sequence = ping.sequence;
  return ack;
}

}  // namespace grapevine::test
