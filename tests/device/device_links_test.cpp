// Nodes with a device each, whose payloads go in place or by the host's memory: what decides it,
// and what a process that errs can do, which is nothing to anybody else.
#include <algorithm>

#include "kernels/base/descriptor.hpp"
#include "tests/catch.hpp"
#include "tests/messages/malicious_member.hpp"
#include "tests/run/device_town.hpp"

using namespace grapevine;
using namespace grapevine::testing;

TEST_CASE("the first payload for a process goes by the host, and those behind it in place") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Town town(seed);
    for (uint64_t k = 1; k <= 5; ++k) {
      town["a"].send(1, static_cast<float>(k), k);
      town["b"].send(0, static_cast<float>(10 + k), k);
      town.go_on();
      REQUIRE(town["b"].came.size() == 1);
      REQUIRE(town["a"].came.size() == 1);
      town["b"].check_value(town["b"].came[0], static_cast<float>(k));
      town["a"].check_value(town["a"].came[0], static_cast<float>(10 + k));
      town["a"].came.clear();
      town["b"].came.clear();
      town.go_on();
    }
    CHECK(town["a"].sent_by_host == 1);
    const DeviceEdge edge = town["a"].edge("b");
    CHECK((edge.sends_in_place && edge.receives_in_place && edge.why.empty()));
    CHECK((edge.lent == 4 && edge.borrowed == 4));
    CHECK(town["a"].pool->in_use() == 0);
    CHECK(town.world.judge().findings() == kNothing);
  }
}

TEST_CASE(
    "a process that wants nothing in place is sent copies, and says why; the others are not") {
  Town town(1, {DeviceLink::vmm, DeviceLink::automatic, DeviceLink::host});
  for (uint64_t k = 1; k <= 4; ++k) {
    town["a"].send(2, 1, k);
    town["c"].send(0, 2, k);
    town["a"].send(1, 3, k);
    town.go_on();
    town["b"].came.clear();
  }
  CHECK(town["c"].came.size() == 4);
  CHECK(town["a"].came.size() == 4);
  CHECK(town["a"].edge("c").why == "the other end cannot open the memory of this device");
  CHECK(town["c"].edge("a").why == "--link host");
  CHECK_FALSE(town["a"].edge("c").sends_in_place);
  CHECK(town["a"].edge("b").lent == 3);
  const auto said = [&](const std::string& what) {
    const auto& lines = town["a"].lines;
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(what) != std::string::npos;
    });
  };
  CHECK(said("for c go through the host's memory: "));  // as --link vmm asks for
  CHECK(said("for b are read in place"));
  CHECK(town["b"].lines.empty());
  CHECK(town.world.judge().findings() == kNothing);
}

TEST_CASE("who keeps what it was lent is sent copies, and has a quarter of the slots at most") {
  Town town(1);
  town["a"].send(1, 0, 1);
  town.go_on();  // the line stands
  for (uint64_t k = 2; k <= 8; ++k) {
    town["a"].send(1, static_cast<float>(k), k);
    town.go_on();
  }
  CHECK(town["b"].came.size() == 8);
  CHECK(town["a"].edge("b").lent == kSlots / 4);
  CHECK(town["a"].sent_by_host == 8 - static_cast<int>(kSlots / 4));
  CHECK(town["a"].pool->in_use() == kSlots / 4);
  town["b"].came.clear();
  town.go_on();
  CHECK(town["a"].pool->in_use() == 0);
  town["a"].send(1, 9, 9);
  town.go_on();
  CHECK(town["a"].edge("b").lent == kSlots / 4 + 1);
}

TEST_CASE("when the link to a process ends its line does, once its device has read what it has") {
  Town town(3);
  for (uint64_t k = 1; k <= 3; ++k) {
    town["a"].send(1, static_cast<float>(k), k);
    town.go_on();
  }
  REQUIRE(town["a"].edge("b").lent == 2);
  town["a"].links->down("b");
  town["b"].links->down("a");
  town.go_on();
  CHECK(town["a"].pool->in_use() == 2);  // b holds them still
  town["b"].check_value(town["b"].came.back(), 3);
  town["b"].came.clear();
  town.go_on();
  CHECK(town["a"].pool->in_use() == 0);
  CHECK(town["a"].links->edges().empty());
  for (uint64_t k = 4; k <= 6; ++k) {  // and there is another
    town["a"].send(1, static_cast<float>(k), k);
    town.go_on();
    town["b"].came.clear();
  }
  CHECK(town["a"].edge("b").lent == 2);
  CHECK(town.world.judge().findings() == kNothing);
}

TEST_CASE("a borrower that errs is lent nothing more, keeps what it has, and harms no other edge") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    Town town(seed);
    test::MaliciousMember evil(seed, Town::kEvil, {"a", "b"});
    town["a"].send(3, 1);
    town.go_on();
    REQUIRE(town.evil != nullptr);
    if (seed % 4 != 0) town.evil->send({LineNote::Kind::taken, {}, {}});
    for (uint64_t k = 1; k <= 12; ++k) {
      if (town["a"].pool->in_use() < kSlots) town["a"].send(3, 2, k);
      town["a"].send(1, static_cast<float>(k), k);
      town.go_on();
      REQUIRE(town["b"].came.size() == 1);
      town["b"].check_value(town["b"].came[0], static_cast<float>(k));
      town["b"].came.clear();
      if (!town.evil->heard.empty()) evil.hear(town.evil->heard.back());
      LineNote lie = evil.line_note();
      if (lie.kind == LineNote::Kind::frame) lie.kind = LineNote::Kind::released;  // else no lender
      town.evil->send(lie);
      town.go_on();
    }
    CHECK(town["a"].pool->in_use() <= kSlots / 4);
    CHECK(town["a"].edge("b").lent == 11);
    town.evil_kept = nullptr;  // its end
    town.go_on();
    CHECK(town["a"].pool->in_use() == 0);
    CHECK(town.world.judge().findings() == kNothing);
  }
}

TEST_CASE("a lender that errs is read no more, and what it lends is checked where it enters") {
  uint64_t read = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    Town town(seed);
    test::MaliciousMember evil(seed, Town::kEvil, {"a", "b"});
    Home& victim = town["a"];
    // It lends b's memory as its own.
    int descriptor = -1;
    REQUIRE(town["b"].device->share(town["b"].share->lent().block, descriptor) == Fate::ok);
    LentMemory memory{std::make_shared<const Descriptor>(descriptor), kSlots,
                      kCount * sizeof(float)};
    if (seed % 5 == 1) memory.slots *= 1000;
    if (seed % 5 == 2) memory.slot_bytes = uint64_t{1} << 40;
    const Payload written = town["b"].filled_with(7);
    REQUIRE(town["b"].device->drain() == Fate::ok);
    town.world.judge().learn(victim.device->host(),
                             town.world.judge().clock(town["b"].device->host()));
    auto [mine, theirs] = make_line(town, Town::kEvil, "a");
    theirs->events = victim.links->lent(Town::kEvil, memory, theirs);
    theirs = nullptr;
    town.go_on();
    REQUIRE(!mine->heard.empty());
    CHECK((mine->heard[0].kind == LineNote::Kind::taken) == (seed % 5 != 1 && seed % 5 != 2));
    for (uint64_t k = 1; k <= 12; ++k) {
      evil.hear(LineNote{LineNote::Kind::frame, {}, {0, k}});
      LineNote lie = evil.line_note();
      lie.header.kind = FrameKind::data;
      lie.header.from = 3;
      lie.header.to = 0;
      lie.header.count = std::max<uint64_t>(1, lie.header.count);
      if (payload_bytes(lie.header) > memory.slot_bytes) lie.header.count = 1;
      mine->send(lie);
      town["c"].send(0, 5, k);
      town.go_on();
      for (const Frame& frame : victim.came)
        if (frame.header.from == 2) victim.check_value(frame, 5);
      read += victim.came.size() - 1;
      victim.came.clear();
      town.go_on();
    }
    mine = nullptr;
    town.go_on();
    CHECK(victim.edge("c").borrowed == 11);
    CHECK(town.world.judge().findings() == kNothing);
  }
  CHECK(read > 100);
}
