// Reads the schema into values. Bounds are checked before anything is copied.
#include <fmt/core.h>

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstring>
#include <string>

#include "messages/codec.hpp"
#include "messages/control.capnp.h"
#include "messages/control_codec.hpp"

namespace grapevine {
namespace {

using wire::Control;

static_assert(int(wire::State::LEFT) == int(MemberState::left));
static_assert(int(wire::Membership::Kind::SYNC_REPLY) == int(MembershipPacket::Kind::sync_reply));
static_assert(int(wire::Verb::CHECKPOINT) == int(ConsoleVerb::checkpoint));
static_assert(int(wire::Purpose::CONSOLE) == int(LinkPurpose::console));
static_assert(int(wire::NcclTalk::EndReason::BROKEN) == int(NcclEnd::Reason::broken));

Error refused(const std::string& why) { return world_error("message refused: " + why); }

/// Keeps the first refusal; later reads give empty values.
struct Judge {
  std::string why;

  void refuse(std::string reason) {
    if (why.empty()) why = std::move(reason);
  }
  std::string text(const char* what, capnp::Text::Reader text, size_t most) {
    if (text.size() > most)
      refuse(fmt::format("{} of {} bytes, accepted: at most {}", what, text.size(), most));
    return why.empty() ? std::string(text.begin(), text.size()) : std::string();
  }
  size_t length(const char* what, size_t elements, size_t most) {
    if (elements > most)
      refuse(fmt::format("{} of {} elements, accepted: at most {}", what, elements, most));
    return why.empty() ? elements : 0;
  }
  /// All bytes, or none: a console has no key.
  template <size_t N>
  std::array<uint8_t, N> raw(const char* what, capnp::Data::Reader data, bool needed = true) {
    std::array<uint8_t, N> raw{};
    if (data.size() == N)
      std::memcpy(raw.data(), data.begin(), N);
    else if (needed || data.size() != 0)
      refuse(fmt::format("{} of {} bytes, accepted: {}", what, data.size(), N));
    return raw;
  }
  template <class Ours, class Theirs>
  Ours word(const char* what, Theirs value, Ours last) {
    const auto number = static_cast<unsigned>(value);
    if (number > static_cast<unsigned>(last))
      refuse(fmt::format("{} {}, accepted: 0 to {}", what, number, static_cast<unsigned>(last)));
    return why.empty() ? static_cast<Ours>(number) : Ours{};
  }
};

Hello read(Judge& judge, wire::Hello::Reader in) {
  Hello m;
  m.version = in.getVersion();
  m.purpose = judge.word("purpose", in.getPurpose(), LinkPurpose::console);
  m.incarnation = in.getIncarnation();
  m.job = in.getJob();
  m.run = judge.text("run", in.getRun(), kNameBytes);
  m.job_is = judge.text("jobIs", in.getJobIs(), kLineBytes);
  m.node = judge.text("node", in.getNode(), kNameBytes);
  m.address = judge.text("address", in.getAddress(), kAddressBytes);
  m.key = judge.raw<32>("key", in.getKey(), false);
  m.challenge = judge.raw<16>("challenge", in.getChallenge(), false);
  m.settings = judge.text("settings", in.getSettings(), kSettingsBytes);
  m.defaults = judge.text("defaults", in.getDefaults(), kSettingsBytes);
  return m;
}

BulkToken read(Judge& judge, wire::BulkToken::Reader in) {
  return {in.getToken(), in.getEncrypted(), judge.text("sameHost", in.getSameHost(), kNameBytes)};
}

FrameHeader read_frame(Judge& judge, capnp::Data::Reader in, uint64_t max_payload_bytes) {
  const auto header = decode(std::as_bytes(std::span(in.begin(), in.size())), max_payload_bytes);
  if (header) return *header;
  judge.refuse(header.error().message);
  return {};
}

Member read(Judge& judge, wire::Member::Reader in) {
  Member m;
  m.incarnation = in.getIncarnation();
  m.refutations = in.getRefutations();
  m.first_rank = in.getFirstRank();
  m.ranks = in.getRanks();
  m.state = judge.word("state", in.getState(), MemberState::left);
  m.ready = in.getReady();
  m.finished = in.getFinished();
  m.accuser = in.getAccuser();
  m.node = judge.text("node", in.getNode(), kNameBytes);
  m.address = judge.text("address", in.getAddress(), kAddressBytes);
  m.last_word = judge.word("lastWord", in.getLastWord(), MemberState::left);
  m.generation = in.getGeneration();
  m.stops = in.getStops();
  m.means_asked = in.getMeansAsked();
  m.life = in.getLife();
  m.mean = {in.getMeanNumber(), in.getMeanHash()};
  const auto gone = in.getGone();
  m.gone.resize(judge.length("gone", gone.size(), kMaxGone));
  for (unsigned k = 0; k < m.gone.size(); ++k) {
    const uint64_t word = gone[k];
    m.gone[k] = {static_cast<uint32_t>(word >> 32), static_cast<uint32_t>(word) >> 1,
                 (word & 1) != 0};
  }
  const auto unreachable = in.getUnreachable();
  m.unreachable.resize(judge.length("unreachable", unreachable.size(), kMaxUnreachable));
  for (unsigned k = 0; k < m.unreachable.size(); ++k)
    m.unreachable[k] = unreachable[k];
  m.key = judge.raw<32>("key", in.getKey());
  m.signature = judge.raw<64>("signature", in.getSignature());
  return m;
}

RateFact read(Judge& judge, wire::RateFact::Reader in) {
  RateFact m{in.getOwner(), in.getIncarnation(), in.getPart(), in.getNumber(), {}, {}};
  m.signature = judge.raw<64>("signature", in.getSignature());
  const auto rates = in.getRates();
  m.rates.resize(judge.length("rates", rates.size(), kMaxRates));
  for (unsigned k = 0; k < m.rates.size(); ++k)
    m.rates[k] = {rates[k].getI(), rates[k].getJ(), rates[k].getPerSecond()};
  return m;
}

WorkFact read(Judge& judge, wire::WorkFact::Reader in) {
  WorkFact m{in.getOwner(),     in.getNumber(),    in.getTaken(),
             in.getPerSecond(), in.getCountedAt(), {}};
  m.signature = judge.raw<64>("signature", in.getSignature());
  return m;
}

MembershipPacket read(Judge& judge, wire::Membership::Reader in) {
  MembershipPacket m;
  m.kind = judge.word("kind", in.getKind(), MembershipPacket::Kind::sync_reply);
  m.sequence = in.getSequence();
  m.target = judge.text("target", in.getTarget(), kNameBytes);
  m.graph.version = in.getGraphVersion();
  m.graph.node = judge.text("graphNode", in.getGraphNode(), kNameBytes);
  m.graph.topology = judge.text("topology", in.getTopology(), kSpecBytes);
  if (m.graph.version > 0) {  // version 0: nobody requested it, so nobody signed it
    m.graph.key = judge.raw<32>("graphKey", in.getGraphKey(), false);
    m.graph.signature = judge.raw<64>("graphSignature", in.getGraphSignature(), false);
  }
  const auto news = in.getNews();
  m.news.resize(judge.length("news", news.size(), kMaxNews));
  for (unsigned k = 0; k < m.news.size(); ++k)
    m.news[k] = read(judge, news[k]);
  const auto rates = in.getRateFacts();
  m.rates.resize(judge.length("rateFacts", rates.size(), kMaxRateFacts));
  for (unsigned k = 0; k < m.rates.size(); ++k)
    m.rates[k] = read(judge, rates[k]);
  const auto work = in.getWorkFacts();
  m.work.resize(judge.length("workFacts", work.size(), kMaxWorkFacts));
  for (unsigned k = 0; k < m.work.size(); ++k)
    m.work[k] = read(judge, work[k]);
  return m;
}

FetchState read(Judge& judge, wire::Fetch::Reader in) {
  FetchState m;
  judge.word("what", in.getWhat(), wire::Fetch::What::RANK_STATE);
  m.transfer = in.getTransfer();
  m.rank = in.getRank();
  const auto pieces = in.getPieces();
  m.pieces.resize(judge.length("pieces", pieces.size(), kMaxPieces));
  for (unsigned k = 0; k < m.pieces.size(); ++k)
    m.pieces[k] = pieces[k];
  return m;
}

Manifest read(Judge& judge, wire::Manifest::Reader in) {
  Manifest m;
  m.transfer = in.getTransfer();
  m.refused = judge.text("refused", in.getRefused(), kLineBytes);
  m.dtype = judge.word("dtype", in.getDtype(), DType::bytes);
  m.vectors = in.getVectors();
  m.count = in.getCount();
  m.ranks = in.getRanks();
  m.gradients = in.getGradients();
  m.usual_step = in.getUsualStep();
  m.piece_bytes = in.getPieceBytes();
  const auto hashes = in.getHashes();
  m.hashes.resize(judge.length("hashes", hashes.size(), kMaxPieces));
  for (unsigned k = 0; k < m.hashes.size(); ++k)
    m.hashes[k] = hashes[k];
  const auto numbers = in.getNumbers();
  m.numbers.resize(judge.length("numbers", numbers.size(), kMaxNumbers));
  for (unsigned k = 0; k < m.numbers.size(); ++k)
    m.numbers[k] = numbers[k];
  return m;
}

ConsoleRequest read(Judge& judge, wire::ConsoleRequest::Reader in) {
  return {judge.word("verb", in.getVerb(), ConsoleVerb::checkpoint),
          judge.text("argument", in.getArgument(), kTextBytes), in.getMean(), in.getOffset()};
}

ConsoleReply read(Judge& judge, wire::ConsoleReply::Reader in) {
  const auto bytes = in.getBytes();
  const size_t count = judge.length("bytes", bytes.size(), kTextBytes);
  return {in.getOk(), in.getMore(), judge.text("text", in.getText(), kTextBytes),
          std::string(bytes.asChars().begin(), count), in.getHash()};
}

MeanAsk read(wire::MeanAsk::Reader in) {
  return {in.getDown() ? MeanPiece::Way::down : MeanPiece::Way::up, in.getAgain(), in.getMean(),
          in.getFrom(), in.getUntil()};
}

NcclConnect read(Judge& judge, wire::NcclTalk::Connect::Reader in) {
  NcclConnect m;
  const auto id = in.getId();
  if (id.size() == m.id.size()) {
    std::memcpy(m.id.data(), id.begin(), m.id.size());
  } else {
    judge.refuse(fmt::format("id of {} bytes, accepted: {}", id.size(), m.id.size()));
  }
  m.version = in.getVersion();
  return m;
}

NcclTalk read(Judge& judge, wire::NcclTalk::Reader in) {
  using Talk = wire::NcclTalk;
  const uint64_t edge = in.getEdge();
  switch (in.which()) {
    case Talk::CONNECT: return {edge, read(judge, in.getConnect())};
    case Talk::END: return {edge, NcclEnd{judge.word("end", in.getEnd(), NcclEnd::Reason::broken)}};
    case Talk::REQUEST: {
      const auto request = in.getRequest();
      return {edge, NcclRequest{request.getNumber(), request.getRoomBytes(),
                                read_frame(judge, request.getHeader(), kMaxPayloadBytes)}};
    }
    case Talk::GRANT: {
      const auto grant = in.getGrant();
      NcclGrant m{grant.getNumber(), {}};
      if (grant.getHeader().size() > 0)
        m.header = read_frame(judge, grant.getHeader(), kMaxPayloadBytes);
      return {edge, m};
    }
    case Talk::DECLINE: return {edge, NcclDecline{in.getDecline()}};
  }
  judge.refuse(fmt::format("talk {}, accepted: 0 to 4", static_cast<unsigned>(in.which())));
  return {};
}

ControlMessage read(Judge& judge, Control::Reader in) {
  switch (in.which()) {
    case Control::HELLO: return read(judge, in.getHello());
    case Control::REFUSAL: return Refusal{judge.text("refusal", in.getRefusal(), kLineBytes)};
    case Control::BYE: return Bye{};
    case Control::AGREE: return Agree{judge.raw<64>("agree", in.getAgree())};
    case Control::BULK_TOKEN: return read(judge, in.getBulkToken());
    case Control::FRAME: return read_frame(judge, in.getFrame(), 0);
    case Control::MEMBERSHIP: return read(judge, in.getMembership());
    case Control::FETCH: return read(judge, in.getFetch());
    case Control::MANIFEST: return read(judge, in.getManifest());
    case Control::CONSOLE_REQUEST: return read(judge, in.getConsoleRequest());
    case Control::CONSOLE_REPLY: return read(judge, in.getConsoleReply());
    case Control::MEAN_ASK: return read(in.getMeanAsk());
    case Control::NCCL_TALK: return read(judge, in.getNcclTalk());
    case Control::RESERVED:
    case Control::RESERVED2: break;
  }
  judge.refuse(
      fmt::format("kind {}, accepted: 0 to 14, but 3 and 12", static_cast<unsigned>(in.which())));
  return Bye{};
}

}  // namespace

Result<ControlMessage> decode_control(std::span<const std::byte> bytes) {
  if (bytes.size() > kControlBytes || bytes.size() % sizeof(capnp::word) != 0 || bytes.empty())
    return refused(fmt::format("{} bytes, accepted: a multiple of 8, at most {}", bytes.size(),
                               kControlBytes));
  kj::Array<capnp::word> aligned;
  auto words = kj::arrayPtr(reinterpret_cast<const capnp::word*>(bytes.data()),
                            bytes.size() / sizeof(capnp::word));
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(capnp::word) != 0) {
    aligned = kj::heapArray<capnp::word>(words.size());
    std::memcpy(aligned.begin(), bytes.data(), bytes.size());
    words = aligned;
  }
  try {
    // Pointers of one message may point to the same words more than once, but only finitely often.
    capnp::FlatArrayMessageReader reader(words, {4 * words.size() + 64, 16});
    Judge judge;
    ControlMessage m = read(judge, reader.getRoot<Control>());
    if (!judge.why.empty()) return refused(judge.why);
    if (reader.getEnd() != words.end()) return refused("something follows the message");
    if (const Status valid = validate(m); !valid) return valid.error();
    return m;
  } catch (const kj::Exception&) {  // its text may quote the peer
    return refused("malformed");
  }
}

}  // namespace grapevine
