// Forbidden records of a valid peer on its bulk link: it loses that link, the reason is counted,
// and nothing else happens.
#include <sys/mman.h>

#include <functional>
#include <numeric>

#include "kernels/memory/shared_memory.hpp"
#include "tests/transport/frames.hpp"
#include "tests/transport/tools.hpp"
#include "tests/transport/valid_peer.hpp"

using namespace grapevine;

namespace {

constexpr uint64_t kMemory = 7;  // its number
constexpr size_t kMemoryBytes = 4096;

/// "b", with a control link to the node "a".
struct Peer {
  explicit Peer(LinksOptions options = {}) : a("a", without_key(std::move(options))) {}

  TestNode a;
  Stranger control = peer_of(a, "b");
  std::shared_ptr<SharedMemory> memory = SharedMemory::make(kMemoryBytes);

  BulkToken next_token() {
    const ControlMessage m = control.hear();
    REQUIRE(std::holds_alternative<BulkToken>(m));
    return std::get<BulkToken>(m);
  }
  void pass_memory(BulkPeer& bulk) { bulk.say(BulkRecord::memory, kMemory, {}, memory->fd()); }
  uint64_t refusals(LinkRefusal why) { return a.links().refusals()[static_cast<size_t>(why)]; }
  uint64_t refusals() {
    const LinkRefusals all = a.links().refusals();
    return std::accumulate(all.begin(), all.end(), uint64_t{0});
  }
};

using Misdeed = std::function<void(Peer&, BulkPeer&)>;

/// Each on a connection of its own.
void are_refused(LinkRefusal why, const std::vector<Misdeed>& misdeeds) {
  Peer peer;
  REQUIRE(peer.memory != nullptr);
  uint64_t refused = 0;
  for (const Misdeed& misdeed : misdeeds) {
    BulkPeer bulk(peer.next_token());
    peer.pass_memory(bulk);
    misdeed(peer, bulk);
    CHECK(bulk.is_closed());
    CHECK(peer.refusals(why) == ++refused);
    CHECK(peer.refusals() == refused);
  }
  BulkPeer bulk(peer.next_token());
  peer.pass_memory(bulk);
  bulk.say(BulkRecord::frame_in_place, kMemory, encode(data(1, kMemoryBytes / 4)));
  REQUIRE(peer.a.wait([&] { return !peer.a.frames.empty(); }));
  peer.a.look([&] {
    CHECK(peer.a.frames.size() == 1);
    CHECK(peer.a.parcels.empty());
    CHECK(peer.a.downs.empty());  // the control link stood all the time
  });
}

Parcel piece(uint64_t count) { return {StatePiece{1, 2}, DType::f32, count}; }

}  // namespace

TEST_CASE("a payload in place lies inside of a memory that was passed") {
  const auto frame = [](uint64_t memory, uint64_t count) {
    return [=](Peer&, BulkPeer& bulk) {
      bulk.say(BulkRecord::frame_in_place, memory, encode(data(1, count)));
    };
  };
  are_refused(
      LinkRefusal::in_place,
      {frame(kMemory, kMemoryBytes / 4 + 1), frame(kMemory + 1, 1), [](Peer&, BulkPeer& bulk) {
         bulk.say(BulkRecord::parcel_in_place, kMemory, encode(piece(kMemoryBytes / 4 + 1)));
       }});
}

TEST_CASE("a memory that is passed is sealed, and there") {
  are_refused(LinkRefusal::memory, {[](Peer&, BulkPeer& bulk) { bulk.say(BulkRecord::memory, 8); },
                                    [](Peer&, BulkPeer& bulk) {
                                      const int fd = ::memfd_create("unsealed", MFD_CLOEXEC);
                                      REQUIRE(::ftruncate(fd, kMemoryBytes) == 0);
                                      bulk.say(BulkRecord::memory, 8, {}, fd);
                                      ::close(fd);
                                    }});
}

TEST_CASE("a peer passes 256 memories at most") {
  are_refused(LinkRefusal::memory, {[](Peer& peer, BulkPeer& bulk) {  // one is there already
                for (uint64_t number = 0; number < 256; ++number)
                  bulk.say(BulkRecord::memory, 1000 + number, {}, peer.memory->fd());
              }});
}

TEST_CASE("only what was lent is released") {
  are_refused(LinkRefusal::release,
              {[](Peer&, BulkPeer& bulk) { bulk.say(BulkRecord::release, kMemory); }});
}

TEST_CASE("a record of a bulk link has a kind that there is, and a payload behind it") {
  const auto kind = [](uint16_t kind) {
    return [=](Peer&, BulkPeer& bulk) { bulk.say(kind, kMemory, encode(data(1, 1))); };
  };
  FrameHeader offer;
  are_refused(LinkRefusal::record,
              {kind(BulkRecord::hello), kind(BulkRecord::line + 1),
               [](Peer&, BulkPeer& bulk) {
                 BulkRecord record;
                 record.magic += 1;
                 record.kind = BulkRecord::frame;
                 bulk.say(record);
               },
               [=](Peer&, BulkPeer& bulk) { bulk.say(BulkRecord::frame, 0, encode(offer)); },
               [](Peer&, BulkPeer& bulk) {
                 bulk.say(BulkRecord::frame_in_place, kMemory, encode(data(1, 0)));
               }});
}

TEST_CASE("half a record that stands still ends its bulk link, as half a payload does") {
  LinksOptions hasty = without_key();
  hasty.stall_s = 0.4;
  TestNode a("a", hasty);
  Stranger control = peer_of(a, "b");
  const ControlMessage token = control.hear();
  REQUIRE(std::holds_alternative<BulkToken>(token));
  BulkPeer bulk(std::get<BulkToken>(token));
  bulk.say_half_a_record();
  CHECK(bulk.is_closed());
  CHECK(a.look([&] { return a.downs.size(); }) == 0u);  // the control link stands
}

TEST_CASE("what the codec refuses is not read, of a parcel as of a frame") {
  const auto record = [](BulkRecord::Kind kind, const HeaderBytes& header) {
    return [=](Peer&, BulkPeer& bulk) { bulk.say(kind, kMemory, header); };
  };
  FrameHeader infinite = data(1, 1);
  infinite.alpha_tilde = 1 / 0.0;
  const Parcel crowded{MeanPiece{MeanPiece::Way::down, 1, 0, 0, kRanksAtMost + 1}, DType::f32, 1};
  are_refused(
      LinkRefusal::header,
      {record(BulkRecord::frame, encode(infinite)), record(BulkRecord::parcel, encode(data(1, 1))),
       record(BulkRecord::parcel, encode(piece(0))),  // a header and nothing behind it
       record(BulkRecord::parcel, encode(piece(kMaxPayloadBytes))),
       record(BulkRecord::parcel_in_place, encode(crowded))});
}

TEST_CASE("a token is good once, and no more when another one has been handed out for it") {
  Peer peer;
  const BulkToken first = peer.next_token();
  REQUIRE(peer.control.say(first));  // could not be used, so there is another
  const BulkToken second = peer.next_token();
  CHECK(second.token != first.token);
  CHECK(knock_for_bulk(peer.a.address(), first.token).is_closed());
  CHECK(peer.refusals(LinkRefusal::token) == 1u);
  BulkPeer bulk(second);
  CHECK(knock_for_bulk(peer.a.address(), second.token).is_closed());
  CHECK(peer.refusals(LinkRefusal::token) == 2u);
  peer.pass_memory(bulk);
  bulk.say(BulkRecord::frame_in_place, kMemory, encode(data(1, 1)));
  CHECK(peer.a.wait([&] { return peer.a.frames.size() == 1; }));
}

TEST_CASE("a token ends with the link that it was handed out on") {
  Peer peer;
  const BulkToken token = peer.next_token();
  peer.a.links().close("b");
  REQUIRE(peer.a.wait_down("b"));
  CHECK(knock_for_bulk(peer.a.address(), token.token).is_closed());
  CHECK(peer.refusals(LinkRefusal::token) == 1u);
}

TEST_CASE("a memory lent again and again costs as many buffers as there are, and is given back") {
  Peer peer;
  BulkPeer bulk(peer.next_token());
  peer.pass_memory(bulk);
  constexpr size_t kTimes = 4096;
  for (size_t k = 0; k < kTimes; ++k)
    bulk.say(BulkRecord::frame_in_place, kMemory, encode(data(k, 1)));
  BulkRecord given_back;
  for (size_t k = 0; k < kTimes; ++k) {
    REQUIRE(bulk.hear(given_back));
    REQUIRE(given_back.kind == BulkRecord::release);
  }
  const uint64_t taken = peer.a.look([&] { return peer.a.frames.size(); });
  CHECK(taken > 0u);
  CHECK(peer.a.links().counts("b").discarded == kTimes - taken);
  CHECK(peer.refusals() == 0u);
}

TEST_CASE("of a memory lent in place again and again two frames are in use at once") {
  LinksOptions itself;
  itself.frames_in_place = true;
  Peer peer(itself);
  BulkPeer bulk(peer.next_token());
  peer.pass_memory(bulk);
  constexpr size_t kTimes = 100, kUsed = 2;
  for (size_t k = 0; k < kTimes; ++k)
    bulk.say(BulkRecord::frame_in_place, kMemory, encode(data(k, 1)));
  BulkRecord given_back;
  for (size_t k = 0; k < kTimes; ++k) {
    if (k == kTimes - kUsed) {
      CHECK(peer.a.look([&] { return peer.a.frames.size(); }) == kUsed);
      peer.a.look([&] { peer.a.frames.clear(); });
    }
    REQUIRE(bulk.hear(given_back));
    REQUIRE(given_back.kind == BulkRecord::release);
  }
  CHECK(peer.a.links().counts("b").discarded == kTimes - kUsed);
  bulk.say(BulkRecord::frame_in_place, kMemory, encode(data(kTimes, 1)));
  CHECK(peer.a.wait([&] { return peer.a.frames.size() == 1; }));
  CHECK(peer.refusals() == 0u);
}

TEST_CASE("who never gives back is lent two payloads at once, and the rest goes by the socket") {
  Peer peer;
  SnapshotPool shared(kMemoryBytes / 4, DType::f32, 8, SnapshotPool::Memory::shared);
  BulkPeer bulk(peer.next_token());
  constexpr uint64_t kFrames = 6;
  size_t lent = 0, by_socket = 0;
  for (uint64_t k = 0; k < kFrames; ++k) {
    const Payload payload{shared.take(), DType::f32, kMemoryBytes / 4, 0};
    REQUIRE(peer.a.links().send_frame("b", data(k, kMemoryBytes / 4), payload));
  }
  while (lent + by_socket < kFrames) {
    BulkRecord record;
    Descriptor memory;
    REQUIRE(bulk.hear_with_descriptor(record, memory));
    lent += record.kind == BulkRecord::frame_in_place;
    if (record.kind != BulkRecord::frame) continue;
    ++by_socket;
    bulk.skip(kMemoryBytes + sizeof(uint64_t));
  }
  CHECK(lent == 2u);
  CHECK(eventually([&] { return shared.in_use() == lent; }));
}
