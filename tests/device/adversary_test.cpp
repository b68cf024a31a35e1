// The faults that the adversary makes and the errors that it finds: one test for each promise.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "tests/catch.hpp"
#include "tests/device/adversary.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr size_t kBytes = 64;

/// A device with three streams, two events, two blocks of its own and a pinned one of ones.
struct Bench {
  AdverseWorld world;
  Adversary adversary;
  Device& device = adversary;
  Stream a, b, c;
  Event e, f;
  Block x, y, pinned;

  explicit Bench(uint64_t seed = 1) : world(seed), adversary(world, "A") {
    for (Stream* s : {&a, &b, &c})
      REQUIRE(device.make_stream(false, *s) == Fate::ok);
    for (Event* event : {&e, &f})
      REQUIRE(device.make_event(*event) == Fate::ok);
    for (Block* block : {&x, &y})
      REQUIRE(device.allocate(kBytes, Block::Kind::shared, *block) == Fate::ok);
    REQUIRE(device.allocate(kBytes, Block::Kind::pinned, pinned) == Fate::ok);
    std::memset(pinned.data, 1, kBytes);
    device.touch({pinned.data, kBytes, Access::Mode::writes});
  }

  /// Fills a block by a pass.
  void set(Stream s, const Block& to, int value) {
    pass(s, to, Access::Mode::writes, [value](char* at) { std::memset(at, value, kBytes); });
  }
  template <class Work>
  void pass(Stream s, const Block& on, Access::Mode mode, Work work) {
    const Access access{on.data, kBytes, mode};
    CHECK(device.launch(s, {&access, 1}, [work](void*, void* const* at) {
      work(static_cast<char*>(at[0]));
    }) == Fate::ok);
  }
  void run() { REQUIRE(world.run()); }
  void finish_all() {
    run();
    adversary.finish_all();
  }
  bool clean() const { return world.judge().findings().empty(); }
  bool found(const char* words) const { return world.judge().found(words); }
};

bool ok(Fate fate) { return fate == Fate::ok; }

}  // namespace

TEST_CASE("a wait keeps the record of its call when the event is recorded anew before it runs") {
  Bench t;
  t.adversary.slow[t.c.id] = 1e6;
  t.set(t.a, t.x, 1);
  CHECK(ok(t.device.record(t.e, t.a)));
  CHECK(ok(t.device.wait(t.b, t.e)));
  t.set(t.c, t.y, 2);
  CHECK(ok(t.device.record(t.e, t.c)));
  t.set(t.b, t.x, 3);
  CHECK(ok(t.device.record(t.f, t.b)));
  double done_s = -1;
  t.device.when(t.f, [&](Fate) { done_s = t.world.now(); });
  t.finish_all();
  CHECK(done_s >= 0);
  CHECK(done_s < 1);
  CHECK(t.world.now() > 1);
  CHECK(t.clean());
}

TEST_CASE("an event that was never recorded has come, and a wait for it orders nothing") {
  Bench t;
  CHECK(ok(t.device.query(t.e)));
  t.set(t.a, t.x, 1);
  CHECK(ok(t.device.wait(t.b, t.e)));
  t.set(t.b, t.x, 2);
  t.run();
  CHECK(t.found("race"));
}

TEST_CASE("a missing event is found although the work happened to be done in the right order") {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Bench t(seed);
    t.set(t.a, t.x, 1);
    t.run();
    t.set(t.b, t.x, 2);
    t.finish_all();
    CHECK(t.found("race: stream 0 of A passes at adversary_test.cpp"));
  }
}

TEST_CASE("who has asked the event of a copy may write its source, who has not may not") {
  for (const bool asks : {true, false}) {
    Bench t;
    CHECK(ok(t.device.copy(t.a, t.x.data, t.pinned.data, kBytes)));
    CHECK(ok(t.device.record(t.e, t.a)));
    CHECK(t.device.query(t.e) == Fate::later);
    t.run();
    if (asks) CHECK(ok(t.device.query(t.e)));
    t.device.touch({t.pinned.data, kBytes, Access::Mode::writes});
    CHECK(t.clean() == asks);
  }
}

TEST_CASE("a copy of pageable memory is named, and reads late what the caller wrote since") {
  Bench t;
  char pageable[kBytes];
  std::memset(pageable, 5, kBytes);
  CHECK(ok(t.device.copy(t.a, t.x.data, pageable, kBytes)));
  std::memset(pageable, 6, kBytes);
  t.finish_all();
  CHECK(t.found("pageable"));
  CHECK(t.found("value"));
}

TEST_CASE("a copy to memory that is pinned for reading alone is found") {
  for (const auto mode : {Access::Mode::reads, Access::Mode::updates}) {
    Bench t;
    char ours[kBytes] = {};
    REQUIRE(ok(t.device.pin({ours, kBytes, mode})));
    CHECK(ok(t.device.copy(t.a, t.x.data, ours, kBytes)));
    CHECK(t.clean());
    CHECK(ok(t.device.copy(t.a, ours, t.x.data, kBytes)));
    CHECK(t.found("may only be read") == (mode == Access::Mode::reads));
    REQUIRE(ok(t.device.drain()));
    t.device.unpin(ours);
  }
}

TEST_CASE("what is being written is not a number to whoever looks meanwhile") {
  int seen = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Bench t(seed);
    t.set(t.a, t.x, 1);
    t.finish_all();
    REQUIRE(t.clean());
    t.adversary.slow[t.a.id] = 100;
    t.set(t.a, t.x, 2);
    CHECK(ok(t.device.copy(t.b, t.pinned.data, t.x.data, kBytes)));
    t.finish_all();
    seen += t.pinned.data[0] == std::byte{0xFF};
    CHECK(t.found("race"));
    CHECK(t.found("value") == (t.pinned.data[0] != std::byte{2}));
  }
  CHECK(seen > 20);
}

TEST_CASE("the host dies where it follows an address of the device") {
  Bench t;
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    *t.x.data = std::byte{1};
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
}

TEST_CASE("a pass is held to what it says: reads stay, writes are whole, and others are not met") {
  Bench t;
  t.set(t.a, t.x, 0);
  t.pass(t.a, t.x, Access::Mode::updates, [](char* at) { at[3] = 1; });
  t.pass(t.a, t.x, Access::Mode::reads, [](char*) {});
  CHECK(t.clean());
  t.pass(t.a, t.x, Access::Mode::reads, [](char* at) { at[3] = 2; });
  CHECK(t.found("wrote what it said it reads"));
  t.pass(t.a, t.y, Access::Mode::writes, [](char* at) { std::memset(at, 0, kBytes - 1); });
  CHECK(t.found("left out some of what it said it writes"));
}

TEST_CASE("reading what nobody has written is found") {
  Bench t;
  t.pass(t.a, t.x, Access::Mode::reads, [](char*) {});
  CHECK(t.found("what nobody has written is read"));
}

TEST_CASE("bytes that a pass wrote are read, even where they look like those of nobody") {
  Bench t;
  t.pass(t.a, t.x, Access::Mode::updates, [](char*) {});
  t.pass(t.a, t.y, Access::Mode::writes, [](char* at) { std::memset(at, 0xFF, kBytes); });
  t.pass(t.a, t.y, Access::Mode::reads, [](char*) {});
  CHECK(t.clean());
  t.pass(t.a, t.x, Access::Mode::reads, [](char*) {});  // nothing was updated there
  CHECK(t.found("what nobody has written is read"));
}

TEST_CASE("freeing memory under work that is in flight is found, behind its event it is not") {
  for (const bool waits : {true, false}) {
    Bench t;
    t.set(t.a, t.x, 1);
    CHECK(ok(t.device.record(t.e, t.a)));
    if (waits) {
      t.run();
      CHECK(ok(t.device.query(t.e)));
    }
    CHECK(ok(t.device.free(t.x)));
    t.finish_all();
    CHECK(t.clean() == waits);
    CHECK(t.found("work on freed memory") == !waits);
  }
}

TEST_CASE("a piece of work that fails loses the device for good, and who waits is told once") {
  Bench t;
  int told = 0, told_lost = 0;
  t.device.on_lost([&] { ++told_lost; });
  t.adversary.fail_work = 1;
  t.set(t.a, t.x, 1);
  CHECK(ok(t.device.record(t.e, t.a)));
  t.device.when(t.e, [&](Fate fate) { told += fate == Fate::lost ? 1 : 100; });
  t.run();
  CHECK(told == 1);
  CHECK(told_lost == 1);
  CHECK(t.device.query(t.e) == Fate::lost);
  CHECK(t.device.record(t.e, t.a) == Fate::lost);
  t.device.when(t.e, [&](Fate fate) { told += fate == Fate::lost ? 1 : 100; });
  t.device.on_lost([&] { ++told_lost; });
  t.run();
  CHECK(told == 2);
  CHECK(told_lost == 2);
}

TEST_CASE("each call can be the one that fails, an allocation by having no memory") {
  Bench t;
  Block more;
  t.adversary.fail_call = t.adversary.calls + 1;
  CHECK(t.device.allocate(kBytes, Block::Kind::device, more) == Fate::out_of_memory);
  CHECK(ok(t.device.allocate(kBytes, Block::Kind::device, more)));
  t.adversary.fail_call = t.adversary.calls + 1;
  CHECK(t.device.record(t.e, t.a) == Fate::lost);
  CHECK(t.device.allocate(kBytes, Block::Kind::device, more) == Fate::lost);
}

TEST_CASE("a function that may only post and calls the device is found") {
  Bench t;
  t.set(t.a, t.x, 1);
  CHECK(ok(t.device.record(t.e, t.a)));
  t.device.when(t.e, [&](Fate) { CHECK(ok(t.device.query(t.e))); });
  t.run();
  CHECK(t.found("may only post"));
}

TEST_CASE("an event that somebody awaits and that is recorded anew is found") {
  Bench t;
  t.set(t.a, t.x, 1);
  CHECK(ok(t.device.record(t.e, t.a)));
  t.device.when(t.e, [](Fate) {});
  CHECK(ok(t.device.record(t.e, t.a)));
  CHECK(t.found("is recorded anew"));
}

TEST_CASE("shared memory outlives a process that is killed, for whoever has it open") {
  AdverseWorld world(1);
  Adversary maker(world, "A"), reader(world, "B");
  Device &ours = maker, &theirs = reader;
  Block mine, opened, again, pinned;
  Stream writes, reads;
  int descriptor = -1;
  REQUIRE(ok(ours.make_stream(false, writes)));
  REQUIRE(ok(theirs.make_stream(false, reads)));
  REQUIRE(ok(ours.allocate(kBytes, Block::Kind::shared, mine)));
  REQUIRE(ok(theirs.allocate(kBytes, Block::Kind::pinned, pinned)));
  REQUIRE(ok(ours.share(mine, descriptor)));
  const Access whole{mine.data, kBytes, Access::Mode::writes};
  CHECK(ok(ours.launch(writes, {&whole, 1},
                       [](void*, void* const* at) { std::memset(at[0], 7, kBytes); })));
  REQUIRE(world.run());
  CHECK(ok(theirs.open(descriptor, kBytes, opened)));
  world.judge().learn(reader.host(), world.judge().clock(maker.host() + 2));  // a message
  maker.kill();
  CHECK(ok(theirs.copy(reads, pinned.data, opened.data, kBytes)));
  REQUIRE(world.run());
  CHECK(pinned.data[0] == std::byte{7});
  CHECK(world.judge().findings().empty());
  CHECK(ok(theirs.free(opened)));
  CHECK(theirs.open(descriptor, kBytes, again) == Fate::out_of_memory);
}

TEST_CASE("freeing what others have open is judged by what one's own work did there") {
  for (const bool waits : {true, false}) {
    Bench t;
    Adversary other(t.world, "B");
    Block opened;
    int descriptor = -1;
    REQUIRE(ok(t.device.share(t.x, descriptor)));
    REQUIRE(ok(other.open(descriptor, kBytes, opened)));
    t.set(t.a, t.x, 1);
    CHECK(ok(t.device.record(t.e, t.a)));
    if (waits) {
      t.run();
      CHECK(ok(t.device.query(t.e)));
    }
    CHECK(ok(t.device.free(t.x)));
    CHECK(t.found("the host of A frees") == !waits);
  }
}

TEST_CASE("who has a dead process's memory open may free it, whatever that did there unheard") {
  Bench t;
  Adversary other(t.world, "B");
  Device& theirs = other;
  Block opened;
  int descriptor = -1;
  REQUIRE(ok(t.device.share(t.x, descriptor)));
  REQUIRE(ok(theirs.open(descriptor, kBytes, opened)));
  t.set(t.a, t.x, 1);
  t.run();
  t.adversary.kill();
  CHECK(ok(theirs.free(opened)));
  CHECK(t.clean());
}

TEST_CASE("what is queued and not done when all should be is found") {
  Bench t;
  t.set(t.a, t.x, 1);
  t.adversary.finish_all();
  CHECK(t.found("not all done"));
}

TEST_CASE("a seed replays a run, and another seed does not") {
  const auto took_s = [](uint64_t seed) {
    Bench t(seed);
    for (int k = 0; k < 20; ++k)
      t.set(k % 2 == 0 ? t.a : t.b, k % 2 == 0 ? t.x : t.y, k);
    t.finish_all();
    CHECK(t.clean());
    return t.world.now();
  };
  CHECK(took_s(3) == took_s(3));
  CHECK(took_s(3) != took_s(4));
}
