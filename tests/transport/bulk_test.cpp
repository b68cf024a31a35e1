// Payloads between nodes: from lease to lease, both ways at once, and what happens when they stall.
#include <algorithm>
#include <cstring>

#include "kernels/base/random.hpp"
#include "kernels/memory/shared_memory.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/transport/frames.hpp"
#include "tests/transport/tools.hpp"

using namespace grapevine;

namespace {

constexpr size_t kElements = 300000;  // more than one slice, not a multiple of it

Payload filled(SnapshotPool& pool, uint32_t seed, size_t count = kElements) {
  Payload p{pool.take(), DType::f32, count, 0};
  REQUIRE(p.lease);
  auto* x = p.writable(DType::f32, count).as<float>();
  Random random(seed, 0, Purpose::test);
  for (size_t k = 0; k < count; ++k)
    x[k] = static_cast<float>(random.uniform());
  return p;
}

bool same(const Payload& sent, const Lease& came) {
  return came && came.vec().bytes() >= sent.vec().bytes() &&
         std::memcmp(sent.vec().data, came.vec().data, sent.vec().bytes()) == 0;
}

FrameHeader data(uint64_t number) { return grapevine::data(number, kElements); }

}  // namespace

TEST_CASE("payloads arrive as they were sent, whichever end dialled and whichever sends first") {
  for (const bool connector_first : {true, false}) {
    TestNode a("a", only_tcp()), b("b", only_tcp());
    connect(a, b, "a", "b");
    TestNode& first = connector_first ? a : b;
    TestNode& second = connector_first ? b : a;
    const std::string one = connector_first ? "a" : "b", other = connector_first ? "b" : "a";
    CHECK(first.links().counts(other).bulk == BulkPath::none);  // not before it is needed
    const Payload there = filled(first.pool(), 1), back = filled(second.pool(), 2);
    REQUIRE(first.links().send_frame(other, data(1), there));
    REQUIRE(second.wait([&] { return second.frames.size() == 1; }));
    REQUIRE(second.links().send_frame(one, data(2), back));
    REQUIRE(first.wait([&] { return first.frames.size() == 1; }));
    CHECK(second.frames[0].header == data(1));
    CHECK(second.frames[0].from == one);
    CHECK(same(there, second.frames[0].payload));
    CHECK(same(back, first.frames[0].payload));
    const LinkCounts counts = first.links().counts(other);
    CHECK(counts.bulk == BulkPath::tcp);
    CHECK(counts.frames_sent == 1u);
    CHECK(counts.frame_bytes_received == kHeaderBytes + 4 * kElements);
  }
}

TEST_CASE("many payloads cross in both directions at once and none is lost or mixed") {
  TestNode a("a", only_tcp()), b("b", only_tcp());
  connect(a, b, "a", "b");
  constexpr uint64_t kFrames = 30;
  std::vector<Payload> from_a, from_b;
  for (uint32_t k = 0; k < kFrames; ++k) {
    from_a.push_back(filled(a.pool(), 2 * k, 1000 * k + 1));
    from_b.push_back(filled(b.pool(), 2 * k + 1, 9000 * k + 1));
    REQUIRE(a.links().send_frame("b", data(k, from_a[k].count), from_a[k]));
    REQUIRE(b.links().send_frame("a", data(k, from_b[k].count), from_b[k]));
  }
  REQUIRE(a.wait([&] { return a.frames.size() == kFrames; }));
  REQUIRE(b.wait([&] { return b.frames.size() == kFrames; }));
  for (uint64_t k = 0; k < kFrames; ++k) {
    CHECK(a.frames[k].header.number == k);
    CHECK(same(from_b[k], a.frames[k].payload));
    CHECK(same(from_a[k], b.frames[k].payload));
  }
}

TEST_CASE("parcels cross beside frames by every path, and both ends count them apart") {
  for (const bool same_host : {false, true}) {
    LinksOptions options;
    options.same_host = same_host;
    TestNode a("a", options), b("b", options);
    connect(a, b, "a", "b");
    SnapshotPool shared(kElements, DType::f32, 4, SnapshotPool::Memory::shared);
    const Payload own = filled(a.pool(), 1), lent = filled(shared, 2);
    const Parcel piece{StatePiece{7, 3}, DType::f32, kElements};
    const MeanPiece down{MeanPiece::Way::down, 1, 0, 0, 4};
    const Parcel mean{down, DType::f32, kElements};
    REQUIRE(a.links().send_parcel("b", piece, own));
    REQUIRE(a.links().send_frame("b", data(1), own));
    REQUIRE(a.links().send_parcel("b", mean, lent));
    REQUIRE(b.wait([&] { return b.parcels.size() == 2 && b.frames.size() == 1; }));
    CHECK(b.parcels[0].from == "a");
    CHECK(b.parcels[0].parcel == piece);
    CHECK(same(own, b.parcels[0].payload.lease));
    CHECK(b.parcels[1].parcel == mean);
    CHECK(b.parcels[1].payload.count == kElements);
    CHECK(b.parcels[1].payload.dtype == DType::f32);
    CHECK(same(lent, b.parcels[1].payload.lease));
    CHECK(same(own, b.frames[0].payload));
    const LinkCounts there = b.links().counts("a");
    CHECK(there.parcels_received == 2u);
    CHECK(there.parcel_bytes_received == 2 * (kHeaderBytes + 4 * kElements));
    CHECK(there.frames_received == 1u);
    CHECK(eventually([&] { return a.links().counts("b").parcels_sent == 2; }));
    CHECK(a.links().counts("b").in_place_bytes_sent == (same_host ? 4 * kElements : 0));
  }
}

TEST_CASE(
    "one bit turned over on the way is noticed: that frame is dropped, the next one arrives") {
  for (const bool same_host : {false, true}) {
    LinksOptions options;
    options.same_host = same_host;
    TestNode a("a", options), b("b", options);
    connect(a, b, "a", "b");
    SnapshotPool shared(kElements, DType::f32, 4, SnapshotPool::Memory::shared);
    const Payload sent = filled(shared, 1);
    const uint64_t last_bits = 8 * 4 * kElements - 3;
    REQUIRE(a.links().send_frame("b", data(1), sent));
    REQUIRE(a.links().send_frame("b", data(2), sent, last_bits));
    REQUIRE(a.links().send_frame("b", data(3), sent));
    REQUIRE(b.wait([&] { return b.frames.size() == 2; }));
    CHECK(b.frames[0].header.number == 1u);
    CHECK(b.frames[1].header.number == 3u);
    CHECK(same(sent, b.frames[1].payload));
    CHECK(b.links().counts("a").corrupt == 1u);
    CHECK(eventually([&] { return a.links().counts("b").frames_sent == 3; }));
  }
}

TEST_CASE("a sent payload's lease returns to its pool") {
  TestNode a("a", only_tcp()), b("b", only_tcp());
  connect(a, b, "a", "b");
  REQUIRE(a.links().send_frame("b", data(1), filled(a.pool(), 1)));
  REQUIRE(b.wait([&] { return b.frames.size() == 1; }));
  REQUIRE(b.links().send_frame("a", data(1), filled(b.pool(), 1)));  // a's loop has gone on
  REQUIRE(a.wait([&] { return a.frames.size() == 1; }));
  a.frames.clear();
  CHECK(a.pool().in_use() == 0u);
}

TEST_CASE("a payload that finds no buffer is discarded, counted, and the next one arrives") {
  TestNode a("a", only_tcp()), b("b", only_tcp());
  connect(a, b, "a", "b");
  b.look([&] { b.no_buffers = true; });
  const Payload p = filled(a.pool(), 1);
  REQUIRE(a.links().send_frame("b", data(1), p));
  REQUIRE(a.links().send_frame("b", data(2), p));
  FrameHeader small = data(3);
  REQUIRE(eventually([&] { return b.links().counts("a").discarded == 2; }));
  b.look([&] { b.no_buffers = false; });
  REQUIRE(a.links().send_frame("b", small, p));
  REQUIRE(b.wait([&] { return b.frames.size() == 1; }));
  CHECK(b.frames[0].header.number == 3u);
  CHECK(same(p, b.frames[0].payload));
}

TEST_CASE("a full queue of payloads says false and holds no more leases than its bound") {
  LinksOptions options = only_tcp();
  options.queued_frames = 2;
  TestNode a("a", options), b("b", only_tcp());
  connect(a, b, "a", "b");
  const Payload p = filled(a.pool(), 1);
  size_t taken = 0;
  for (uint64_t k = 0; k < 1000; ++k)
    taken += a.links().send_frame("b", data(k), p);
  CHECK(a.links().counts("b").refused == 1000 - taken);
  CHECK(taken < 1000);
  REQUIRE(b.wait([&] { return b.frames.size() == taken; }));
}

TEST_CASE("when the control link ends, queued payloads are given back") {
  TestNode a("a", only_tcp()), b("b", only_tcp());
  connect(a, b, "a", "b");
  for (uint64_t k = 0; k < 20; ++k)
    a.links().send_frame("b", data(k), filled(a.pool(), 1));
  a.links().close("b");
  REQUIRE(a.wait_down("b"));
  REQUIRE(eventually([&] { return a.pool().in_use() == 0; }));
  CHECK_FALSE(a.links().send_frame("b", data(1), filled(a.pool(), 1)));
}

TEST_CASE("an announced size above the bound ends the bulk link, and nothing is allocated for it") {
  LinksOptions small = only_tcp();
  small.max_payload_bytes = 4 * kElements - 4;
  TestNode a("a", only_tcp()), b("b", small);
  connect(a, b, "a", "b");
  const Payload p = filled(a.pool(), 1);
  REQUIRE(a.links().send_frame("b", data(1), p));
  // The control link stands, and a payload within the bound opens another bulk link.
  REQUIRE(eventually([&] {
    a.links().send_frame("b", data(2, 10), {p.lease, DType::f32, 10, 0});
    return b.look([&] { return !b.frames.empty(); });
  }));
  CHECK(b.frames[0].header.number == 2u);
  CHECK(b.look([&] { return b.downs.size(); }) == 0u);
}

TEST_CASE("on one host shared memory is copied once and returns to its pool; what came stays") {
  TestNode a("a"), b("b");
  connect(a, b, "a", "b");
  SnapshotPool shared(kElements, DType::f32, 2, SnapshotPool::Memory::shared);
  for (uint64_t k = 1; k <= 20; ++k) {  // more often than there are slots
    Payload sent;
    REQUIRE(eventually([&] { return shared.in_use() == 0; }));
    sent = filled(shared, static_cast<uint32_t>(k));
    REQUIRE(a.links().send_frame("b", data(k), sent));
    REQUIRE(b.wait([&] { return b.frames.size() == 1; }));
    CHECK(b.frames[0].header == data(k));
    CHECK(same(sent, b.frames[0].payload));
    // Its sender writes to the memory again, which changes nothing of what was taken.
    const float first = b.frames[0].payload.vec().as<float>()[0];
    auto* again = const_cast<float*>(static_cast<const float*>(sent.lease.shared()->data()));
    *again = first + 1;
    CHECK(b.frames[0].payload.vec().as<float>()[0] == first);
    sent = {};
    CHECK(eventually([&] { return shared.in_use() == 0; }));  // b has let go, and still has it
    b.look([&] { b.frames.clear(); });
  }
  CHECK(a.links().counts("b").bulk == BulkPath::shared_memory);
  CHECK(b.links().counts("a").bulk == BulkPath::shared_memory);
  CHECK(a.links().counts("b").in_place_bytes_sent == 20 * 4 * kElements);
}

TEST_CASE("on one host other memory goes through a unix socket, both ways and both kinds mixed") {
  TestNode a("a"), b("b");
  connect(a, b, "a", "b");
  SnapshotPool shared(kElements, DType::f32, 40, SnapshotPool::Memory::shared);
  std::vector<Payload> from_a, from_b;
  for (uint32_t k = 0; k < 20; ++k) {
    from_a.push_back(filled(k % 2 == 0 ? shared : a.pool(), 2 * k));
    from_b.push_back(filled(k % 3 == 0 ? shared : b.pool(), 2 * k + 1));
    REQUIRE(a.links().send_frame("b", data(k), from_a[k]));
    REQUIRE(b.links().send_frame("a", data(k), from_b[k]));
  }
  REQUIRE(a.wait([&] { return a.frames.size() == 20; }));
  REQUIRE(b.wait([&] { return b.frames.size() == 20; }));
  for (size_t k = 0; k < 20; ++k) {
    CHECK(a.frames[k].header.number == k);
    CHECK(same(from_b[k], a.frames[k].payload));
    CHECK(same(from_a[k], b.frames[k].payload));
  }
}

TEST_CASE("who copies frames itself gets them where they are, and holds the memory until then") {
  LinksOptions itself;
  itself.frames_in_place = true;
  TestNode a("a"), b("b", itself);
  connect(a, b, "a", "b");
  SnapshotPool shared(kElements, DType::f32, 2, SnapshotPool::Memory::shared);
  for (uint64_t k = 1; k <= 20; ++k) {  // more often than there are slots
    Payload sent = filled(shared, static_cast<uint32_t>(k));
    REQUIRE(a.links().send_frame("b", data(k), sent));
    REQUIRE(b.wait([&] { return b.frames.size() == 1; }));
    CHECK(same(sent, b.frames[0].payload));
    auto* const again = static_cast<float*>(const_cast<void*>(sent.vec().data));
    *again += 1;
    CHECK(same(sent, b.frames[0].payload));
    sent = {};
    // Another payload through the same connection has come, and this one is still lent.
    const Parcel piece{StatePiece{1, static_cast<uint32_t>(k)}, DType::f32, kElements};
    REQUIRE(a.links().send_parcel("b", piece, filled(shared, 7)));
    REQUIRE(b.wait([&] { return b.parcels.size() == k; }));
    CHECK(b.parcels.back().payload.lease.vec().data != b.frames[0].payload.vec().data);
    REQUIRE(eventually([&] { return shared.in_use() <= 1; }));
    CHECK(shared.in_use() == 1);
    b.look([&] { b.frames.clear(); });
    REQUIRE(eventually([&] { return shared.in_use() == 0; }));
  }
  CHECK(b.links().counts("a").bulk == BulkPath::shared_memory);
  CHECK(b.links().counts("a").frames_received == 20);
}

TEST_CASE("a frame in place outlives its link, whose memory is left to it, and all links") {
  LinksOptions itself;
  itself.frames_in_place = true;
  TestNode a("a"), b("b", itself);
  connect(a, b, "a", "b");
  SnapshotPool shared(kElements, DType::f32, 1, SnapshotPool::Memory::shared);
  Payload sent = filled(shared, 7);
  REQUIRE(a.links().send_frame("b", data(1), sent));
  REQUIRE(b.wait([&] { return b.frames.size() == 1; }));
  const std::vector<float> was(sent.vec().as<float>(), sent.vec().as<float>() + kElements);
  sent = {};
  a.links().close("b");
  REQUIRE(a.wait_down("b"));
  REQUIRE(b.wait_down("a"));
  REQUIRE(eventually([&] { return shared.in_use() == 0; }));
  Payload next = filled(shared, 8);  // the only slot, written anew
  CHECK(std::memcmp(b.frames[0].payload.vec().data, was.data(), 4 * kElements) == 0);
  a.links().dial(b.address());
  REQUIRE(a.wait_up("b", 2));
  REQUIRE(b.wait_up("a", 2));
  b.look([&] { b.frames.clear(); });
  REQUIRE(a.links().send_frame("b", data(2), next));
  REQUIRE(b.wait([&] { return b.frames.size() == 1; }));
  CHECK(same(next, b.frames[0].payload));
  b.end();
  CHECK(same(next, b.frames[0].payload));
  b.frames.clear();
}

TEST_CASE("memory that a peer still reads when the link ends is left to it") {
  TestNode a("a"), b("b");
  connect(a, b, "a", "b");
  SnapshotPool shared(kElements, DType::f32, 1, SnapshotPool::Memory::shared);
  Payload sent = filled(shared, 7);
  REQUIRE(a.links().send_frame("b", data(1), sent));
  REQUIRE(b.wait([&] { return b.frames.size() == 1; }));
  const std::vector<float> was(sent.vec().as<float>(), sent.vec().as<float>() + kElements);
  sent = {};
  a.links().close("b");
  REQUIRE(a.wait_down("b"));
  REQUIRE(eventually([&] { return shared.in_use() == 0; }));
  const Payload next = filled(shared, 8);  // the only slot, written anew
  CHECK(std::memcmp(b.frames[0].payload.vec().data, was.data(), 4 * kElements) == 0);
  CHECK(std::memcmp(next.vec().data, was.data(), 4 * kElements) != 0);
}
