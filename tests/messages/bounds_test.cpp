// Bounds on receipt: what no sender of ours would write, written by hand into the schema.
#include <capnp/message.h>
#include <capnp/serialize.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "messages/control.capnp.h"
#include "messages/control_codec.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

std::atomic<size_t> g_allocated{0};  // bytes, by anybody, since the program began

}  // namespace

void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  g_allocated += bytes;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(size_t bytes) {
  if (void* p = operator new(bytes, std::nothrow)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace {

struct Said {
  std::string refusal;
  size_t allocated = 0;  // while it was decoded
};

/// The refusal of a message that `fill` writes, and the cost of reading it.
template <class Fill>
Said said_of(Fill fill) {
  capnp::MallocMessageBuilder builder;
  fill(builder.initRoot<wire::Control>());
  const auto words = capnp::messageToFlatArray(builder);
  const auto bytes = words.asBytes();
  REQUIRE(bytes.size() <= kControlBytes);
  const size_t before = g_allocated;
  const auto decoded = decode_control(std::as_bytes(std::span(bytes.begin(), bytes.size())));
  const size_t after = g_allocated;
  return {decoded ? "accepted" : decoded.error().message, after - before};
}

constexpr size_t kOfARefusal = 4096;  // bytes for the text and what the reader needs

}  // namespace

TEST_CASE("a list beyond its bound is refused before anything of it is copied") {
  const Said pieces =
      said_of([](wire::Control::Builder m) { m.initFetch().initPieces(kMaxPieces + 4000); });
  CHECK(pieces.refusal == "message refused: pieces of 8096 elements, accepted: at most 4096");
  CHECK(pieces.allocated < kOfARefusal);
  const Said hashes =
      said_of([](wire::Control::Builder m) { m.initManifest().initHashes(kMaxPieces + 1000); });
  CHECK(hashes.refusal == "message refused: hashes of 5096 elements, accepted: at most 4096");
  CHECK(hashes.allocated < kOfARefusal);
  const Said rates =
      said_of([](wire::Control::Builder m) { m.initMembership().initRateFacts(512); });
  CHECK(rates.refusal == "message refused: rateFacts of 512 elements, accepted: at most 32");
  CHECK(rates.allocated < kOfARefusal);
  const Said news =
      said_of([](wire::Control::Builder m) { m.initMembership().initNews(4 * kMaxNews); });
  CHECK(news.refusal == "message refused: news of 128 elements, accepted: at most 32");
  CHECK(news.allocated < kOfARefusal);
  const Said gone = said_of(
      [](wire::Control::Builder m) { m.initMembership().initNews(1)[0].initGone(kMaxGone + 1); });
  CHECK(gone.refusal == "message refused: gone of 65 elements, accepted: at most 64");
  CHECK(gone.allocated < kOfARefusal);
  const Said unreachable = said_of(
      [](wire::Control::Builder m) { m.initMembership().initNews(1)[0].initUnreachable(4096); });
  CHECK(unreachable.refusal ==
        "message refused: unreachable of 4096 elements, accepted: at most 16");
  CHECK(unreachable.allocated < kOfARefusal);
}

TEST_CASE("ranks beyond 32 bits are refused, at either end") {
  MembershipPacket packet;
  packet.news.resize(1);
  packet.news[0].node = "n";
  packet.news[0].first_rank = 0xfffffff0;
  packet.news[0].ranks = 15;
  CHECK(encode_control(packet));
  packet.news[0].ranks = 16;
  const auto encoded = encode_control(packet);
  REQUIRE(!encoded);
  CHECK(encoded.error().message == "message refused: ranks beyond 32 bits");
  for (const uint32_t ranks : {15u, 16u, 0xffffffffu}) {
    const Said said = said_of([&](wire::Control::Builder m) {
      auto news = m.initMembership().initNews(1);
      news[0].setNode("n");
      news[0].setFirstRank(0xfffffff0);
      news[0].setRanks(ranks);
      news[0].initKey(sizeof(PublicKey));
      news[0].initSignature(sizeof(Signature));
    });
    CHECK(said.refusal == (ranks == 15 ? "accepted" : "message refused: ranks beyond 32 bits"));
  }
}
