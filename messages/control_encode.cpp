// Writes values into the schema's builders.
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

template <size_t N>
kj::ArrayPtr<const kj::byte> data_of(const std::array<uint8_t, N>& raw) {
  return kj::arrayPtr(raw.data(), N);
}

void fill(Control::Builder out, const Hello& m) {
  auto hello = out.initHello();
  hello.setVersion(m.version);
  hello.setPurpose(static_cast<wire::Purpose>(m.purpose));
  hello.setIncarnation(m.incarnation);
  hello.setJob(m.job);
  hello.setRun(m.run);
  hello.setJobIs(m.job_is);
  hello.setNode(m.node);
  hello.setAddress(m.address);
  hello.setId(id_of(m.key));
  hello.setKey(data_of(m.key));
  hello.setChallenge(data_of(m.challenge));
  hello.setSettings(m.settings);
  hello.setDefaults(m.defaults);
}

void fill(Control::Builder out, const Refusal& m) { out.setRefusal(m.reason); }
void fill(Control::Builder out, const Bye&) { out.setBye(); }
void fill(Control::Builder out, const Agree& m) { out.setAgree(data_of(m.proof)); }

void fill(Control::Builder out, const BulkToken& m) {
  auto token = out.initBulkToken();
  token.setToken(m.token);
  token.setEncrypted(m.encrypted);
  token.setSameHost(m.same_host);
}

kj::ArrayPtr<const kj::byte> data_of(std::span<const std::byte> bytes) {
  return kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size());
}

void fill(Control::Builder out, const FrameHeader& h) { out.setFrame(data_of(encode(h))); }

void fill(wire::Member::Builder out, const Member& m) {
  out.setIncarnation(m.incarnation);
  out.setRefutations(m.refutations);
  out.setFirstRank(m.first_rank);
  out.setRanks(m.ranks);
  out.setState(static_cast<wire::State>(m.state));
  out.setReady(m.ready);
  out.setFinished(m.finished);
  out.setAccuser(m.accuser);
  out.setNode(m.node);
  out.setAddress(m.address);
  out.setKey(data_of(m.key));
  out.setSignature(data_of(m.signature));
  out.setLastWord(static_cast<wire::State>(m.last_word));
  out.setGeneration(m.generation);
  out.setStops(m.stops);
  out.setMeansAsked(m.means_asked);
  out.setLife(m.life);
  out.setMeanNumber(m.mean.number);
  out.setMeanHash(m.mean.hash);
  if (!m.gone.empty()) {
    auto gone = out.initGone(static_cast<unsigned>(m.gone.size()));
    for (unsigned k = 0; k < gone.size(); ++k)
      gone.set(k, uint64_t{m.gone[k].rank} << 32 | uint64_t{m.gone[k].incarnation} << 1 |
                      uint64_t{m.gone[k].lives});
  }
  if (!m.unreachable.empty())
    out.setUnreachable(kj::arrayPtr(m.unreachable.data(), m.unreachable.size()));
}

void fill(wire::RateFact::Builder out, const RateFact& m) {
  out.setOwner(m.owner);
  out.setIncarnation(m.incarnation);
  out.setPart(m.part);
  out.setNumber(m.number);
  out.setSignature(data_of(m.signature));
  auto rates = out.initRates(static_cast<unsigned>(m.rates.size()));
  for (unsigned k = 0; k < rates.size(); ++k) {
    rates[k].setI(m.rates[k].i);
    rates[k].setJ(m.rates[k].j);
    rates[k].setPerSecond(m.rates[k].per_second);
  }
}

void fill(wire::WorkFact::Builder out, const WorkFact& m) {
  out.setOwner(m.owner);
  out.setNumber(m.number);
  out.setTaken(m.taken);
  out.setPerSecond(m.per_second);
  out.setCountedAt(m.counted_s);
  out.setSignature(data_of(m.signature));
}

void fill(Control::Builder out, const MembershipPacket& m) {
  auto packet = out.initMembership();
  packet.setKind(static_cast<wire::Membership::Kind>(m.kind));
  packet.setSequence(m.sequence);
  packet.setTarget(m.target);
  packet.setGraphVersion(m.graph.version);
  packet.setGraphNode(m.graph.node);
  packet.setTopology(m.graph.topology);
  if (m.graph.version > 0) {
    packet.setGraphKey(data_of(m.graph.key));
    packet.setGraphSignature(data_of(m.graph.signature));
  }
  auto news = packet.initNews(static_cast<unsigned>(m.news.size()));
  for (unsigned k = 0; k < news.size(); ++k)
    fill(news[k], m.news[k]);
  if (!m.work.empty()) {
    auto work = packet.initWorkFacts(static_cast<unsigned>(m.work.size()));
    for (unsigned k = 0; k < work.size(); ++k)
      fill(work[k], m.work[k]);
  }
  if (m.rates.empty()) return;
  auto rates = packet.initRateFacts(static_cast<unsigned>(m.rates.size()));
  for (unsigned k = 0; k < rates.size(); ++k)
    fill(rates[k], m.rates[k]);
}

void fill(Control::Builder out, const FetchState& m) {
  auto fetch = out.initFetch();
  fetch.setTransfer(m.transfer);
  fetch.setRank(m.rank);
  fetch.setPieces(kj::arrayPtr(m.pieces.data(), m.pieces.size()));
}

void fill(Control::Builder out, const Manifest& m) {
  auto manifest = out.initManifest();
  manifest.setTransfer(m.transfer);
  manifest.setRefused(m.refused);
  manifest.setDtype(static_cast<wire::ElementType>(m.dtype));
  manifest.setVectors(m.vectors);
  manifest.setCount(m.count);
  manifest.setRanks(m.ranks);
  manifest.setGradients(m.gradients);
  manifest.setUsualStep(m.usual_step);
  manifest.setPieceBytes(m.piece_bytes);
  manifest.setHashes(kj::arrayPtr(m.hashes.data(), m.hashes.size()));
  manifest.setNumbers(kj::arrayPtr(m.numbers.data(), m.numbers.size()));
}

void fill(Control::Builder out, const ConsoleRequest& m) {
  auto request = out.initConsoleRequest();
  request.setVerb(static_cast<wire::Verb>(m.verb));
  request.setArgument(m.argument);
  request.setMean(m.mean);
  request.setOffset(m.offset);
}

void fill(Control::Builder out, const ConsoleReply& m) {
  auto reply = out.initConsoleReply();
  reply.setOk(m.ok);
  reply.setMore(m.more);
  reply.setText(m.text);
  reply.setBytes(kj::arrayPtr(reinterpret_cast<const kj::byte*>(m.bytes.data()), m.bytes.size()));
  reply.setHash(m.hash);
}

void fill(Control::Builder out, const MeanAsk& m) {
  auto ask = out.initMeanAsk();
  ask.setMean(m.mean);
  ask.setFrom(m.from);
  ask.setUntil(m.until);
  ask.setDown(m.way == MeanPiece::Way::down);
  ask.setAgain(m.again);
}

void fill(wire::NcclTalk::Builder out, const NcclConnect& m) {
  auto connect = out.initConnect();
  connect.setId(data_of(m.id));
  connect.setVersion(m.version);
}
void fill(wire::NcclTalk::Builder out, const NcclEnd& m) {
  out.setEnd(static_cast<wire::NcclTalk::EndReason>(m.reason));
}
void fill(wire::NcclTalk::Builder out, const NcclRequest& m) {
  auto request = out.initRequest();
  request.setNumber(m.number);
  request.setRoomBytes(m.room_bytes);
  request.setHeader(data_of(encode(m.header)));
}
void fill(wire::NcclTalk::Builder out, const NcclGrant& m) {
  auto grant = out.initGrant();
  grant.setNumber(m.number);
  if (m.header) grant.setHeader(data_of(encode(*m.header)));
}
void fill(wire::NcclTalk::Builder out, const NcclDecline& m) { out.setDecline(m.number); }

void fill(Control::Builder out, const NcclTalk& m) {
  auto talk = out.initNcclTalk();
  talk.setEdge(m.edge);
  std::visit([&](const auto& what) { fill(talk, what); }, m.what);
}

}  // namespace

Result<std::vector<std::byte>> encode_control(const ControlMessage& m) {
  if (const Status valid = validate(m); !valid) return valid.error();
  // Most messages are a frame's header or a probe, and fit into the segment on the stack.
  capnp::word first[64];
  std::memset(first, 0, sizeof first);
  capnp::MallocMessageBuilder message(kj::arrayPtr(first, 64));
  auto root = message.initRoot<Control>();
  std::visit([&](const auto& value) { fill(root, value); }, m);
  const auto words = capnp::messageToFlatArray(message);
  const auto bytes = std::as_bytes(std::span(words.asBytes().begin(), words.asBytes().size()));
  if (bytes.size() > kControlBytes)
    return world_error(fmt::format("message refused: {} bytes, accepted: at most {}", bytes.size(),
                                   kControlBytes));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

}  // namespace grapevine
