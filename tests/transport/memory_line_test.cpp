// Lines by which memory of a device is lent from one process to another: what is said arrives in
// order, a line's end means that nobody reads any more, and whoever errs is counted and left.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "actors/transport/socket_line.hpp"
#include "tests/transport/frames.hpp"
#include "tests/transport/tools.hpp"
#include "tests/transport/valid_peer.hpp"

using namespace grapevine;

namespace {

using Kind = LineNote::Kind;
constexpr uint64_t kSlotBytes = 4096;
constexpr uint32_t kSlots = 3;

LentMemory some_memory() {
  return {std::make_shared<const Descriptor>(::memfd_create("lent", MFD_CLOEXEC)), kSlots,
          kSlotBytes};
}

uint64_t inode_of(const Descriptor& memory) {
  struct stat about {};
  REQUIRE(::fstat(memory.fd(), &about) == 0);
  return about.st_ino;
}

LineNote frame(uint64_t number, uint64_t count = 8) {
  return {Kind::frame, data(number, count), {static_cast<uint32_t>(number % kSlots), number}};
}

/// Two nodes between which payloads travel already.
struct Pair {
  TestNode a{"a"}, b{"b"};
  Pair() {
    connect(a, b, "a", "b");
    SnapshotPool pool(8, DType::f32, 1);
    Payload payload{pool.take()};
    payload.writable(DType::f32, 8);
    CHECK(a.links().lend("b", some_memory(), a.line_events()) == nullptr);  // not before that
    REQUIRE(a.links().send_frame("b", data(1, 8), payload));
    REQUIRE(b.wait([&] { return b.frames.size() == 1; }));
  }
  std::shared_ptr<MemoryLine> lend(const LentMemory& memory = some_memory()) {
    auto line = a.links().lend("b", memory, a.line_events());
    REQUIRE(line != nullptr);
    REQUIRE(b.wait([&] { return !b.lent.empty(); }));
    return line;
  }
};

}  // namespace

TEST_CASE("memory is lent along a line of its own, and what both ends say arrives in order") {
  Pair pair;
  const LentMemory memory = some_memory();
  const auto line = pair.lend(memory);
  const TestNode::Lent lent = pair.b.look([&] { return pair.b.lent[0]; });
  CHECK(lent.from == "a");
  CHECK((lent.memory.slots == kSlots && lent.memory.slot_bytes == kSlotBytes));
  CHECK(inode_of(*lent.memory.descriptor) == inode_of(*memory.descriptor));
  REQUIRE(lent.line->send({Kind::taken, {}, {}}));
  REQUIRE(pair.a.wait([&] { return pair.a.notes.size() == 1; }));
  CHECK(pair.a.notes[0].kind == Kind::taken);
  for (uint64_t k = 1; k <= 200; ++k) {
    REQUIRE(line->send(frame(k)));
    REQUIRE(pair.b.wait([&] { return pair.b.notes.size() == k; }));
    const LineNote said = pair.b.look([&] { return pair.b.notes.back(); });
    CHECK((said.kind == Kind::frame && said.header == data(k, 8)));
    CHECK(said.lent == frame(k).lent);
    REQUIRE(lent.line->send({Kind::released, {}, said.lent}));
    REQUIRE(pair.a.wait([&] { return pair.a.notes.size() == k + 1; }));
    CHECK(pair.a.look([&] { return pair.a.notes.back().lent == said.lent; }));
  }
  const LinkCounts counts = pair.a.links().counts("b");
  CHECK(counts.in_place_bytes_sent == 200 * 8 * sizeof(float));
  CHECK(counts.frames_sent == 201);
  CHECK(pair.b.links().counts("a").frames_received == 201);
}

TEST_CASE("a line ends when the borrower drops it, and not with the links that it was opened by") {
  Pair pair;
  const auto line = pair.lend();
  pair.a.links().close("b");
  REQUIRE(pair.b.wait_down("a"));
  REQUIRE(line->send(frame(1)));
  REQUIRE(pair.b.wait([&] { return pair.b.notes.size() == 1; }));
  line->finish();
  CHECK_FALSE(line->send(frame(2)));
  REQUIRE(pair.b.wait([&] { return pair.b.line_ends == 1; }));
  auto borrowed = pair.b.look([&] { return pair.b.lent[0].line; });
  REQUIRE(borrowed->send({Kind::released, {}, frame(1).lent}));  // which is still heard
  REQUIRE(pair.a.wait([&] { return pair.a.notes.size() == 1; }));
  CHECK(pair.a.look([&] { return pair.a.line_ends == 0; }));
  pair.b.look([&] { pair.b.lent.clear(); });
  borrowed = nullptr;
  CHECK(pair.a.wait([&] { return pair.a.line_ends == 1; }));
}

TEST_CASE("no more is lent at once than both ends allow") {
  Pair pair;
  const auto line = pair.lend();
  for (uint64_t k = 1; k <= MemoryLine::kMostLent; ++k)
    REQUIRE(line->send(frame(k)));
  CHECK_FALSE(line->send(frame(MemoryLine::kMostLent + 1)));
  REQUIRE(pair.b.wait([&] { return pair.b.notes.size() == MemoryLine::kMostLent; }));
  const auto borrowed = pair.b.look([&] { return pair.b.lent[0].line; });
  REQUIRE(borrowed->send({Kind::released, {}, frame(7).lent}));
  REQUIRE(pair.a.wait([&] { return pair.a.notes.size() == 1; }));
  CHECK(line->send(frame(MemoryLine::kMostLent + 1)));
}

namespace {

/// As its layout says (socket_line.cpp), every byte a test's.
struct Record {
  uint32_t magic = 0x314c5647;
  uint16_t kind = 0;
  uint16_t unused = 0;
  uint32_t slots = kSlots;
  uint32_t unused_2 = 0;
  uint64_t value = kSlotBytes;
  HeaderBytes header{};
};

Record record(uint16_t kind, uint32_t slots, uint64_t value, const HeaderBytes& header = {}) {
  Record r;
  r.kind = kind;
  r.slots = slots;
  r.value = value;
  r.header = header;
  return r;
}

/// One end of a line, in a test's hands.
struct Far {
  Descriptor socket;

  void say(const void* bytes, size_t count, std::vector<int> passed = {}) const {
    const iovec piece{const_cast<void*>(bytes), count};
    send_passing(socket.fd(), {&piece, 1}, passed);
  }
  void say(const Record& r, std::vector<int> passed = {}) const { say(&r, sizeof r, passed); }
  bool is_closed() const {
    char bytes[256];
    ssize_t n = 1;
    while (n > 0)
      n = ::recv(socket.fd(), bytes, sizeof bytes, 0);
    return n == 0;
  }
};

/// "b", a process like any other, to the node "a".
struct Odd {
  TestNode a{"a", without_key()};
  Stranger control = peer_of(a, "b");
  BulkPeer bulk{token()};
  Descriptor memory{::memfd_create("lent", MFD_CLOEXEC)};

  BulkToken token() {
    const ControlMessage m = control.hear();
    REQUIRE(std::holds_alternative<BulkToken>(m));
    return std::get<BulkToken>(m);
  }
  Far open_line() {
    LinePair pair = make_line_pair();
    bulk.say(BulkRecord::line, 0, {}, pair.there.fd());
    return {std::move(pair.here)};
  }
  uint64_t refusals(LinkRefusal why) { return a.links().refusals()[static_cast<size_t>(why)]; }
};

constexpr uint16_t kFrame = 3, kReleased = 4;

}  // namespace

namespace {

struct Misdeed {
  LinkRefusal why;
  std::function<void(const Far&)> say;
};

std::vector<Misdeed> misdeeds_of(const Odd& peer) {
  const HeaderBytes good = encode(data(1, 8));
  const auto offers = [&peer](const Far& far) { far.say(Record(), {peer.memory.fd()}); };
  const auto after_offer = [&](const Record& said) {
    return [offers, said](const Far& far) {
      offers(far);
      far.say(said);
    };
  };
  const auto offer_of = [&](uint32_t slots, uint64_t bytes) {
    return [&peer, slots, bytes](const Far& far) {
      far.say(record(0, slots, bytes), {peer.memory.fd()});
    };
  };
  Record magic = record(kFrame, 0, 1, good);
  magic.magic = 7;
  return {{LinkRefusal::memory, [](const Far& far) { far.say(Record()); }},  // without a descriptor
          {LinkRefusal::memory, offer_of(0, kSlotBytes)},
          {LinkRefusal::memory, offer_of(~0u, kSlotBytes)},
          {LinkRefusal::memory, offer_of(kSlots, 0)},
          {LinkRefusal::memory, offer_of(kSlots, ~uint64_t{0})},
          {LinkRefusal::memory, offer_of(kSlots, kMaxPayloadBytes + 1)},
          {LinkRefusal::memory, [good](const Far& far) { far.say(record(kFrame, 0, 1, good)); }},
          {LinkRefusal::record, [](const Far& far) { far.say("?", 1); }},
          {LinkRefusal::record,
           [](const Far& far) {
             const std::vector<char> large(sizeof(Record) + 1);
             far.say(large.data(), large.size());
           }},
          {LinkRefusal::record, after_offer(magic)},
          {LinkRefusal::record, after_offer(record(0, 1, 1))},  // offers twice
          {LinkRefusal::record, after_offer(record(1, 1, 1))},
          {LinkRefusal::record, after_offer(record(kReleased, 1, 1))},
          {LinkRefusal::record, after_offer(record(99, 1, 1))},
          {LinkRefusal::header, after_offer(record(kFrame, 0, 1))},
          {LinkRefusal::header, after_offer(record(kFrame, 0, 1, encode(data(1, 0))))},
          {LinkRefusal::header, after_offer(record(kFrame, 0, 1, encode(data(1, kSlotBytes))))},
          {LinkRefusal::in_place, [offers, good](const Far& far) {
             offers(far);
             for (size_t k = 0; k <= MemoryLine::kMostLent; ++k)
               far.say(record(kFrame, 0, k + 1, good));
           }}};
}

}  // namespace

TEST_CASE("a lender that errs is left, counted by its reason, and nothing else happens") {
  Odd peer;
  LinkRefusals expected{};
  size_t ends = 0;
  for (const Misdeed& misdeed : misdeeds_of(peer)) {
    const Far far = peer.open_line();
    misdeed.say(far);
    REQUIRE(eventually(
        [&] { return peer.refusals(misdeed.why) > expected[static_cast<size_t>(misdeed.why)]; }));
    ++expected[static_cast<size_t>(misdeed.why)];
    INFO("reason " << kLinkRefusalNames[static_cast<size_t>(misdeed.why)]);
    CHECK(peer.a.links().refusals() == expected);
    peer.a.wait([&] { return peer.a.line_ends >= peer.a.lent.size(); });
    ends = peer.a.look([&] {
      peer.a.lent.clear();
      return peer.a.line_ends;
    });
    CHECK(far.is_closed());
  }
  CHECK(ends > 5);
  const Far far = peer.open_line();  // and an honest one is believed
  far.say(Record(), {peer.memory.fd()});
  far.say(record(kFrame, 2, 5, encode(data(1, 8))));
  REQUIRE(peer.a.wait([&] { return peer.a.lent.size() == 1; }));
  CHECK(peer.a.wait([&] { return peer.a.notes.back().lent == LentSlot{2, 5}; }));
  CHECK(peer.a.look([&] { return peer.a.downs.empty(); }));
}

TEST_CASE("descriptors beside a record that asks for none are closed, however many come") {
  Odd peer;
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const Descriptor reads(ends[0]);
  const Far far = peer.open_line();
  {
    const Descriptor writes(ends[1]);
    far.say(Record(), {peer.memory.fd(), writes.fd()});
    for (uint64_t number = 1; number <= 3; ++number)
      far.say(record(kFrame, 0, number, encode(data(1, 8))), {writes.fd(), writes.fd()});
  }
  CHECK(peer.a.wait([&] { return peer.a.notes.size() == 3; }));
  pollfd closed{reads.fd(), 0, 0};  // once nobody has the other end any more
  CHECK(::poll(&closed, 1, 10000) == 1);
}

TEST_CASE("what is passed for a line and is none ends the bulk link, and lines are few") {
  Odd peer;
  std::vector<Far> lines;
  for (int k = 0; k < 5; ++k) {
    lines.push_back(peer.open_line());
    lines.back().say(Record(), {peer.memory.fd()});
  }
  REQUIRE(eventually([&] { return peer.refusals(LinkRefusal::memory) == 1; }));
  CHECK(peer.a.wait([&] { return peer.a.lent.size() == 4; }));
  peer.bulk.say(BulkRecord::line, 0, {}, peer.memory.fd());
  CHECK(peer.bulk.is_closed());
  CHECK(peer.refusals(LinkRefusal::memory) == 2);
  CHECK(peer.a.look([&] { return peer.a.downs.empty(); }));
}

TEST_CASE("to a borrower that errs nothing more is lent, until its end nothing is taken back") {
  const Record misdeeds[] = {record(kReleased, 0, 1), record(kFrame, 0, 1, encode(data(1, 8))),
                             record(0, 1, 1), record(99, 0, 0)};
  for (const Record& misdeed : misdeeds) {
    INFO("kind " << misdeed.kind);
    Odd peer;
    REQUIRE(eventually([&] { return peer.a.links().counts("b").bulk == BulkPath::unix_socket; }));
    const auto line = peer.a.links().lend("b", some_memory(), peer.a.line_events());
    REQUIRE(line != nullptr);
    BulkRecord passing;
    Far far{peer.bulk.hear_descriptor(passing)};
    CHECK(passing.kind == BulkRecord::line);
    far.say(record(1, 0, 0));
    far.say(misdeed);
    far.say(misdeed);
    REQUIRE(peer.a.wait([&] { return peer.a.notes.size() == 2; }));
    CHECK(peer.a.notes[0].kind == Kind::taken);
    CHECK(peer.a.notes[1].kind == Kind::refused);
    CHECK_FALSE(line->send(frame(1)));
    far.say(misdeed);
    CHECK(peer.a.look([&] { return peer.a.line_ends == 0 && peer.a.notes.size() == 2; }));
    const auto refused = misdeed.kind == kReleased ? LinkRefusal::release : LinkRefusal::record;
    CHECK(peer.refusals(refused) == 1);
    far.socket = Descriptor();
    CHECK(peer.a.wait([&] { return peer.a.line_ends == 1; }));
    CHECK(peer.a.look([&] { return peer.a.downs.empty(); }));
  }
}
