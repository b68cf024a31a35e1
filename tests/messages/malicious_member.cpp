#include "tests/messages/malicious_member.hpp"

#include <algorithm>
#include <limits>

#include "messages/codec.hpp"
#include "messages/control_codec.hpp"
#include "messages/facts.hpp"

namespace grapevine::test {

namespace {

constexpr uint32_t kEdges[] = {0,        1,           2,           3,           64,
                               1 << 16,  0x00ffffffu, 0x01000000u, 0x01000001u, 0x7fffffffu,
                               1u << 31, 0xfffffffeu, 0xffffffffu};
constexpr size_t kFramesKept = 64;

}  // namespace

MaliciousMember::MaliciousMember(uint64_t seed, std::string name, std::vector<std::string> others,
                                 SignAs sign_as, uint64_t run)
    : random_(seed, 6, Purpose::test),
      name_(std::move(name)),
      others_(std::move(others)),
      sign_as_(std::move(sign_as)),
      run_(run) {}

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
  switch (random_.below(20)) {
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
    case 10: m.key[random_.below(32)] ^= static_cast<uint8_t>(1 << random_.below(8)); break;
    case 11: m.mean = {long_word(m.mean.number), long_word(m.mean.hash)}; break;
    case 12:
      for (uint32_t k = random_.below(one_in(8) ? kMaxGone + 1 : 4); k > 0; --k)
        m.gone.push_back({word(m.first_rank), word(m.incarnation), one_in(2)});
      break;
    case 13: m.last_word = static_cast<MemberState>(random_.below(4)); break;
    case 14: m.state = m.last_word = one_in(2) ? MemberState::dead : MemberState::left; break;
    case 15: m.generation = word(m.generation); break;
    case 16: m.stops = !m.stops; break;
    case 17: m.means_asked = word(m.means_asked); break;
    case 18: m.life = long_word(m.life); break;
    default:
      for (uint32_t k = random_.below(kMaxUnreachable + 1); k > 0; --k)
        m.unreachable.push_back(long_word(0));
      if (one_in(2)) std::sort(m.unreachable.begin(), m.unreachable.end());
  }
}

// Most of them as a member may that signs what it says of itself: its own, and those of members
// that it has invented; or another's word as it has heard it, and what it says to that.
Member MaliciousMember::record() {
  Member m;
  m.node = name();
  m.incarnation = 1 + random_.below(3);
  m.ranks = random_.below(4);
  m.address = "h:" + std::to_string(10000 + random_.below(8));
  const auto known = known_.find(m.node);
  if (known != known_.end() && !one_in(4)) m = known->second;
  const bool is_others = std::find(others_.begin(), others_.end(), m.node) != others_.end();
  if (is_others && known != known_.end() && !one_in(3)) {
    m = known->second;
    m.state = static_cast<MemberState>(random_.below(4));
    m.accuser = word(m.accuser);
    return m;
  }
  for (uint32_t k = random_.below(one_in(4) ? 12 : 3); k > 0; --k)
    twist(m);
  if (one_in(3)) ++m.refutations;
  if (one_in(6)) ++m.incarnation;
  if (!one_in(16)) sign(m);
  return m;
}

/// With the key that it has for that name; in the name of another with its own.
void MaliciousMember::sign(Member& m) {
  if (!sign_as_) return;
  const bool is_others = std::find(others_.begin(), others_.end(), m.node) != others_.end();
  const Signing signing = sign_as_(is_others ? name_ : m.node);
  m.key = signing.key;
  m.signature = signing.sign(fact_bytes(run_, m));
}

GraphSpec MaliciousMember::graph() {
  GraphSpec graph{long_word(last_.graph.version), name(), one_in(2) ? "ring" : text(99), {}, {}};
  if (!sign_as_ || one_in(8)) return graph;
  const Signing signing = sign_as_(name_);
  graph.key = signing.key;
  graph.signature = signing.sign(fact_bytes(run_, graph));
  return graph;
}

RateFact MaliciousMember::rates() {
  RateFact fact{long_word(1), word(1), word(0), long_word(1), {}, {}};
  for (uint32_t k = random_.below(one_in(8) ? kMaxRates + 1 : 4); k > 0; --k)
    fact.rates.push_back({word(0), word(1), real()});
  if (!sign_as_ || one_in(8)) return fact;
  const Signing signing = sign_as_(name_);
  fact.owner = id_of(signing.key);
  fact.part = random_.below(4);
  fact.signature = signing.sign(fact_bytes(run_, signing.key, fact));
  return fact;
}

WorkFact MaliciousMember::work() {
  WorkFact fact{long_word(1), long_word(1), long_word(1), real(), real(), {}};
  if (!sign_as_ || one_in(8)) return fact;
  const Signing signing = sign_as_(name_);
  fact.owner = id_of(signing.key);
  fact.signature = signing.sign(fact_bytes(run_, signing.key, fact));
  return fact;
}

MembershipPacket MaliciousMember::packet() {
  MembershipPacket p;
  p.kind = static_cast<MembershipPacket::Kind>(random_.below(6));
  p.sequence = one_in(2) ? random_.below(64) : long_word(last_.sequence);
  p.target = one_in(3) ? std::string() : name();
  for (uint32_t k = random_.below(one_in(8) ? kMaxNews + 1 : 5); k > 0; --k)
    p.news.push_back(record());
  if (one_in(8)) p.graph = graph();
  for (uint32_t k = random_.below(one_in(8) ? kMaxRateFacts + 1 : 3); k > 0; --k)
    p.rates.push_back(rates());
  for (uint32_t k = random_.below(one_in(8) ? kMaxWorkFacts + 1 : 3); k > 0; --k)
    p.work.push_back(work());
  return p;
}

FrameHeader MaliciousMember::header() {
  FrameHeader h;
  if (!frames_.empty() && !one_in(4)) {
    h = frames_[random_.below(static_cast<uint32_t>(frames_.size()))];
    if (one_in(2)) std::swap(h.from, h.to), std::swap(h.from_incarnation, h.to_incarnation);
  }
  for (uint32_t k = random_.below(5); k > 0; --k) {
    switch (random_.below(13)) {
      case 0: h.kind = static_cast<FrameKind>(random_.below(kFrameKinds)); break;
      case 1: h.reason = static_cast<DeclineReason>(random_.below(kDeclineReasons)); break;
      case 2: h.dtype = static_cast<DType>(random_.below(4)); break;
      case 3: h.from = word(h.from); break;
      case 4: h.to = word(h.to); break;
      case 5: h.from_incarnation = word(h.from_incarnation); break;
      case 6: h.to_incarnation = word(h.to_incarnation); break;
      case 7: h.number = long_word(h.number); break;
      case 8: h.part = word(h.part); break;
      case 9: h.bound = static_cast<float>(real()); break;
      case 10: h.allowance = static_cast<float>(real()); break;
      case 11: h.version = word(h.version); break;
      default: h.alpha_tilde = real();
    }
  }
  if (one_in(8)) h.epoch = long_word(h.epoch);
  h.count = carries_payload(h.kind) && one_in(2) ? random_.below(65) : 0;
  return h;
}

void MaliciousMember::hear(const LineNote& n) { last_lent_ = n.lent; }

LineNote MaliciousMember::line_note() {
  LineNote n;
  n.kind = static_cast<LineNote::Kind>(1 + random_.below(4));
  n.lent = {word(last_lent_.slot), long_word(last_lent_.number)};
  if (one_in(2)) n.lent = last_lent_;
  if (one_in(4)) ++n.lent.number;
  n.header = header();
  return n;
}

void MaliciousMember::hear(const NcclTalk& talk) {
  last_edge_ = talk.edge;
  if (const auto* request = std::get_if<NcclRequest>(&talk.what)) {
    last_exchange_ = request->number;
    hear(request->header);
  } else if (const auto* grant = std::get_if<NcclGrant>(&talk.what)) {
    last_exchange_ = grant->number;
  }
}

NcclTalk MaliciousMember::nccl_talk() {
  const uint64_t edge = one_in(8) ? long_word(last_edge_) : last_edge_;
  const uint64_t near = long_word(last_exchange_ + random_.below(3));
  const uint64_t number = std::clamp<uint64_t>(near, 1, kMaxCount);
  FrameHeader h = header();
  if (!carries_payload(h.kind)) h.kind = FrameKind::data;
  h.count = 1 + random_.below(64);
  if (one_in(8)) h.count = kMaxPayloadBytes / size_of(h.dtype);
  switch (random_.below(5)) {
    case 0: {
      NcclConnect connect;
      for (std::byte& b : connect.id)
        b = static_cast<std::byte>(random_.below(256));
      connect.version = one_in(2) ? 22809 : word(22809);
      return {edge, connect};
    }
    case 1: return {edge, NcclEnd{static_cast<NcclEnd::Reason>(random_.below(5))}};
    case 2: return {edge, NcclRequest{number, long_word(64), h}};
    case 3: return {edge, NcclGrant{number, one_in(2) ? std::optional(h) : std::nullopt}};
    default: return {edge, NcclDecline{number}};
  }
}

Parcel MaliciousMember::parcel() {
  for (;;) {
    Parcel p;
    p.dtype = static_cast<DType>(random_.below(4));
    p.count = 1 + random_.below(64);
    if (one_in(2))
      p.what = MeanPiece{static_cast<MeanPiece::Way>(random_.below(2)), long_word(last_mean()),
                         word(0), long_word(0), word(2)};
    else
      p.what = StatePiece{long_word(1), word(0)};
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
  m.dtype = static_cast<DType>(random_.below(4));
  m.vectors = word(2);
  m.count = long_word(6);
  m.ranks = word(1);
  m.gradients = long_word(100);
  m.piece_bytes = long_word(1 << 20);
  m.hashes.resize(random_.below(one_in(8) ? kMaxPieces + 1 : 4), long_word(0));
  for (uint32_t k = random_.below(one_in(4) ? kMaxNumbers + 1 : 3); k > 0; --k)
    m.numbers.push_back(one_in(4) ? kMaxCount : long_word(0) % kMaxCount);
  return m;
}

Hello MaliciousMember::hello() {
  Hello h;
  h.version = static_cast<uint16_t>(word(kControlVersion));
  h.purpose = static_cast<LinkPurpose>(random_.below(2));
  h.run = text(kNameBytes);
  h.job = long_word(1);
  h.job_is = text(kLineBytes);
  h.node = name();
  h.incarnation = word(1);
  h.address = text(kAddressBytes);
  for (uint8_t& byte : h.key)
    byte = static_cast<uint8_t>(random_.bits());
  h.settings = text(kSettingsBytes);
  h.defaults = text(kSettingsBytes);
  return h;
}

ControlMessage MaliciousMember::of_the_links() {
  switch (random_.below(7)) {
    case 0: return hello();
    case 1: return Refusal{one_in(2) ? "another run" : text(kLineBytes)};
    case 2: return Bye{};
    case 3: return Agree{{static_cast<uint8_t>(random_.bits())}};
    case 4: return BulkToken{long_word(0), one_in(2), text(kNameBytes)};
    case 5:
      return ConsoleRequest{static_cast<ConsoleVerb>(random_.below(9)), text(kTextBytes),
                            long_word(1), long_word(0)};
    default: return ConsoleReply{one_in(2), one_in(2), text(1000), text(1000), long_word(0)};
  }
}

bool MaliciousMember::is_of_the_links(const ControlMessage& m) {
  return std::holds_alternative<Hello>(m) || std::holds_alternative<Refusal>(m) ||
         std::holds_alternative<Bye>(m) || std::holds_alternative<Agree>(m) ||
         std::holds_alternative<BulkToken>(m) || std::holds_alternative<ConsoleRequest>(m) ||
         std::holds_alternative<ConsoleReply>(m);
}

ControlMessage MaliciousMember::message() {
  for (;;) {
    ControlMessage m;
    switch (random_.below(14)) {
      case 0: {
        FetchState fetch;
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
      case 5: m = of_the_links(); break;
      case 6: m = nccl_talk(); break;
      case 2:
      case 3: {
        FrameHeader h = header();
        h.count = 0;
        m = h;
        break;
      }
      default: m = packet();
    }
    const auto bytes = encode_control(m);
    if (bytes && decode_control(*bytes)) return m;
  }
}

void MaliciousMember::fill(const Vec& payload) {
  constexpr double kEndless = std::numeric_limits<double>::infinity();
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  constexpr double kFar[] = {kNone, kEndless, -kEndless, 1e38, -1e300, 1e-310, 1e6};
  const uint32_t odd_in = 1 + random_.below(8), far = random_.below(std::size(kFar));
  const bool any_odd = one_in(2);
  for (size_t k = 0; k < payload.size; ++k) {
    const double number = any_odd && one_in(odd_in) ? kFar[far] : random_.normal();
    switch (payload.dtype) {
      case DType::f64: payload.as<double>()[k] = number; break;
      case DType::f32: payload.as<float>()[k] = static_cast<float>(number); break;
      default:  // any bits: some are no numbers
        for (size_t byte = k * size_of(payload.dtype); byte < (k + 1) * size_of(payload.dtype);
             ++byte)
          static_cast<uint8_t*>(payload.data)[byte] = static_cast<uint8_t>(random_.below(256));
    }
  }
}

void outlive(Member& own, const MembershipPacket& said, const Signing& signing, uint64_t run) {
  for (const Member& about : said.news) {
    if (about.node != own.node || about.key != own.key || about.incarnation < own.incarnation)
      continue;
    own.incarnation = about.incarnation + (about.state == MemberState::alive ? 0 : 1);
  }
  own.signature = signing.sign(fact_bytes(run, own));
}

MembershipPacket ack_of(const MembershipPacket& ping) {
  MembershipPacket ack;
  ack.kind = MembershipPacket::Kind::ack;
  ack.sequence = ping.sequence;
  return ack;
}

}  // namespace grapevine::test
