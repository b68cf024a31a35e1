// Nodes with a device each, whose payloads go in place or by the host's memory: what decides it,
// and what a process that errs can do, which is nothing to anybody else.
#include "actors/device_links.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/descriptor.hpp"
#include "tests/catch.hpp"
#include "tests/device/adversary.hpp"
#include "tests/device/owner_tasks.hpp"
#include "tests/messages/malicious_member.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr size_t kCount = 25, kSlots = 8;  // floats; a node may have two of the slots
const std::set<std::string> kNothing;

class Town;

/// One end of a line between two of the town, or in a test's hands.
struct End final : MemoryLine {
  End(Town& town, std::string owner, std::shared_ptr<End*> other, std::shared_ptr<End*> self)
      : town(town), owner(std::move(owner)), other(std::move(other)), self(std::move(self)) {
    *this->self = this;
  }
  ~End() override;
  bool send(const LineNote&) override;
  void finish() override;
  void tell_end();

  Town& town;
  std::string owner;
  std::shared_ptr<End*> other, self;  // null behind it: gone
  LineEvents events;
  bool is_over = false;
  std::vector<LineNote> heard;  // of one in a test's hands
  size_t ends = 0;
};

/// A node: its device and owner, whose tasks wait in the town's one queue; a rank of its own
/// number.
struct Home final : Links {
  Home(Town& town, const std::string& name, uint32_t rank, DeviceLink);

  Payload filled_with(float value);
  void send(uint32_t to, float value, uint64_t number = 1);

  // Links.
  const std::string& address() const override { return name; }
  uint64_t id() const override { return 1; }
  void dial(const std::string&) override {}
  bool send(const std::string&, const ControlMessage&) override { return true; }
  bool send_frame(const std::string& node, const FrameHeader&, const Payload&,
                  std::optional<uint64_t>) override;
  bool send_parcel(const std::string&, const Parcel&, const Payload&) override { return true; }
  std::shared_ptr<MemoryLine> lend(const std::string& node, const LentMemory&, LineEvents) override;
  void reply(uint64_t, const ConsoleReply&) override {}
  void close(const std::string&) override {}
  LinkCounts counts(const std::string&) const override { return {}; }
  LinkCounts totals() const override { return {}; }
  LinkRefusals refusals() const override { return {}; }

  DeviceEdge edge(const std::string& node) const;

  Town& town;
  std::string name;
  uint32_t rank;
  std::unique_ptr<Adversary> device;
  std::shared_ptr<DeviceShare> share;
  std::unique_ptr<SnapshotPool> pool;
  std::shared_ptr<LinkTransport> transport;
  std::shared_ptr<DeviceLinks> links;
  std::vector<Frame> came;
  int sent_by_host = 0;
  std::vector<std::string> lines;
};

/// Nodes a, b and c with the ranks 0, 1 and 2; "evil" is a name in a test's hands, of rank 3.
class Town {
 public:
  explicit Town(uint64_t seed, DeviceLink of_c = DeviceLink::automatic) : world(seed) {
    const DeviceLink wishes[] = {DeviceLink::vmm, DeviceLink::automatic, of_c};
    for (uint32_t k = 0; k < 3; ++k)
      homes.push_back(
          std::make_unique<Home>(*this, std::string(1, static_cast<char>('a' + k)), k, wishes[k]));
  }
  ~Town() {
    for (const auto& home : homes)  // as SpawnedNode::stop
      home->transport = nullptr, home->links = nullptr, home->came.clear();
    go_on();
    for (const auto& home : homes)
      home->pool = nullptr, home->share = nullptr;
    go_on();
  }

  Home& operator[](const std::string& name) { return *homes[static_cast<size_t>(name[0] - 'a')]; }
  void later(std::function<void()> task) { tasks.later(std::move(task)); }
  void go_on() { tasks.go_on(); }
  /// A message takes along what its sender knows.
  void carry(const std::string& from, const std::string& to, std::function<void()> what) {
    if (from == kEvil || to == kEvil) return later(std::move(what));
    Adversary& sender = *(*this)[from].device;
    const Judge::Clock known = world.judge().clock(sender.host());
    world.judge().tick(sender.host());
    later([this, to, known, what = std::move(what)] {
      world.judge().learn((*this)[to].device->host(), known);
      what();
    });
  }

  static constexpr char kEvil[] = "evil";
  AdverseWorld world;
  OwnerTasks tasks{world};
  std::vector<std::unique_ptr<Home>> homes;
  End* evil = nullptr;  // its end of the last line that was opened to it
  std::shared_ptr<End> evil_kept;
  LentMemory lent_to_evil;
};

End::~End() {
  *self = nullptr;
  tell_end();
}

bool End::send(const LineNote& said) {
  End* const to = *other;
  if (is_over || to == nullptr) return false;
  town.carry(owner, to->owner, [there = other, said] {
    if (*there == nullptr) return;
    (*there)->heard.push_back(said);
    if ((*there)->events.note) (*there)->events.note(said);
  });
  return true;
}

void End::finish() { tell_end(); }

void End::tell_end() {
  if (std::exchange(is_over, true) || *other == nullptr) return;
  town.carry(owner, (*other)->owner, [there = other] {
    if (*there == nullptr) return;
    ++(*there)->ends;
    if ((*there)->events.ended) (*there)->events.ended();
  });
}

std::pair<std::shared_ptr<End>, std::shared_ptr<End>> make_line(Town& town, const std::string& from,
                                                                const std::string& to) {
  const auto first = std::make_shared<End*>(nullptr), second = std::make_shared<End*>(nullptr);
  return {std::make_shared<End>(town, from, second, first),
          std::make_shared<End>(town, to, first, second)};
}

Home::Home(Town& town, const std::string& name, uint32_t rank, DeviceLink wish)
    : town(town), name(name), rank(rank), device(std::make_unique<Adversary>(town.world, name)) {
  DeviceSizes sizes;
  sizes.exchange_bytes = 64 << 10;
  sizes.lent_bytes = SnapshotPool::bytes_for(kCount * sizeof(float), DType::bytes, kSlots);
  sizes.gradient_size = kCount;
  sizes.gradients = sizes.askings = 1;
  sizes.piece_bytes = 40;
  share = *DeviceShare::make(*device, sizes);
  pool = share->make_lent_pool(kCount * sizeof(float), DType::bytes, kSlots);
  transport = std::make_shared<LinkTransport>(
      [this](int, Frame frame) { came.push_back(std::move(frame)); },
      [](double, const LinkTransport::Held&) {}, 1);
  auto dock =
      std::make_shared<DeviceDock>(share, kCount * sizeof(float), 32, SnapshotPool::Memory::own);
  links = std::make_shared<DeviceLinks>(share, std::move(dock), wish, transport,
                                        [this](const std::string& line) { lines.push_back(line); });
  links->serve([&town](std::function<void()> task) { town.later(std::move(task)); });
  transport->carry_by(
      [links = links.get()](const std::string& to, const FrameHeader& h, Payload p, bool is_spoiled,
                            auto then) { links->leave(to, h, std::move(p), is_spoiled, then); },
      [links = links.get()](Payload p, auto then) { links->land(std::move(p), then); },
      [links = links.get()] { return links->edges(); });
  transport->use(this);
  std::vector<LinkTransport::Place> places;
  for (const char* node : {"a", "b", "c", Town::kEvil})
    places.push_back({static_cast<int>(places.size()), node == name ? "" : node});
  transport->place(std::move(places));
}

Payload Home::filled_with(float value) { return payload_of(*share, *pool, kCount, value); }

void Home::send(uint32_t to, float value, uint64_t number) {
  FrameHeader h;
  h.kind = FrameKind::data;
  h.from = rank;
  h.to = to;
  h.number = number;
  h.count = kCount;
  Payload payload = filled_with(value);
  REQUIRE(payload);
  CHECK(transport->send(0, h, std::move(payload.lease)) > 0);
}

bool Home::send_frame(const std::string& node, const FrameHeader& h, const Payload& payload,
                      std::optional<uint64_t>) {
  ++sent_by_host;
  if (node == Town::kEvil) return true;
  auto copy = std::make_shared<Buffer>(payload.count, payload.dtype);
  std::memcpy(copy->vec().data, payload.vec().data, payload.vec().bytes());
  town.carry(name, node, [this, node, h, copy] {
    if (town[node].transport) town[node].transport->receive(name, {h, Lease::of(*copy, [copy] {})});
  });
  return true;
}

std::shared_ptr<MemoryLine> Home::lend(const std::string& node, const LentMemory& memory,
                                       LineEvents events) {
  auto [mine, theirs] = make_line(town, name, node);
  mine->events = std::move(events);
  if (node == Town::kEvil) {
    town.evil = theirs.get();
    town.evil_kept = theirs;
    town.lent_to_evil = memory;
    return mine;
  }
  town.carry(name, node, [this, node, memory, theirs = theirs] {
    if (town[node].links) theirs->events = town[node].links->lent(name, memory, theirs);
  });
  return mine;
}

DeviceEdge Home::edge(const std::string& node) const {
  for (const DeviceEdge& e : links->edges())
    if (e.node == node) return e;
  return {};
}

/// What has come is what was sent: the device finds out, in a pass.
void check_value(Home& home, const Frame& frame, float value) {
  const Payload payload = payload_of(frame.header, frame.payload);
  REQUIRE(payload);
  CHECK(payload.lease.on_device());
  bool is_right = false;
  const Access read[] = {{payload.vec().data, payload.vec().bytes(), Access::Mode::reads}};
  REQUIRE(home.device->launch(
              home.share->rules(), read,
              [&is_right, value](void*, void* const* at) {
                is_right = true;
                for (size_t k = 0; k < kCount; ++k)
                  is_right = is_right && static_cast<float*>(at[0])[k] == value;
              },
              grapevine::Where::current()) == Fate::ok);
  REQUIRE(home.device->drain() == Fate::ok);
  CHECK(is_right);
}

}  // namespace

TEST_CASE("the first payload for a process goes by the host, and those behind it in place") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Town town(seed);
    for (uint64_t k = 1; k <= 5; ++k) {
      town["a"].send(1, static_cast<float>(k), k);
      town["b"].send(0, static_cast<float>(10 + k), k);
      town.go_on();
      REQUIRE(town["b"].came.size() == 1);
      REQUIRE(town["a"].came.size() == 1);
      check_value(town["b"], town["b"].came[0], static_cast<float>(k));
      check_value(town["a"], town["a"].came[0], static_cast<float>(10 + k));
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
  Town town(1, DeviceLink::host);
  for (uint64_t k = 1; k <= 4; ++k) {
    town["a"].send(2, 1, k);
    town["c"].send(0, 2, k);
    town["a"].send(1, 3, k);
    town.go_on();
    town["b"].came.clear();
  }
  CHECK(town["c"].came.size() == 4);
  CHECK(town["a"].came.size() == 4);
  CHECK(town["a"].edge("c").why == "the other end cannot open this device's memory");
  CHECK(town["c"].edge("a").why == "--link host");
  CHECK_FALSE(town["a"].edge("c").sends_in_place);
  CHECK(town["a"].edge("b").lent == 3);
  const auto said = [&](const std::string& what) {
    const auto& lines = town["a"].lines;
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(what) != std::string::npos;
    });
  };
  CHECK(said("for c go by the host's memory: "));  // as --link vmm asks for
  CHECK(said("for b are read where they lie"));
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
  check_value(town["b"], town["b"].came.back(), 3);
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
      check_value(town["b"], town["b"].came[0], static_cast<float>(k));
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
        if (frame.header.from == 2) check_value(victim, frame, 5);
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
