// Two neighbours that read each other's snapshots in place: right over many seeds, found out where
// a call that orders something is left out, and unharmed by each other's failures.
#include "kernels/memory/lent_snapshots.hpp"

#include <unistd.h>

#include <algorithm>

#include "kernels/memory/snapshot_pool.hpp"
#include "tests/catch.hpp"
#include "tests/device/neighbour.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr size_t kSize = 50;
constexpr uint64_t kExchanges = 6;  // of a rank
constexpr uint64_t kRounds = Neighbour::kRounds;
constexpr uint64_t kAllExchanges = kExchanges * Neighbour::kRanks;

struct Setting {
  uint64_t seed = 1;
  std::optional<AdverseWorld::Site> left_out = {};
  uint64_t fail_call = 0, fail_work = 0;             // of A
  double kill_at_s = 0, cut_at_s = 0, end_at_s = 0;  // A's process; the link; both. 0: not
  bool is_refused = false;                           // A's memory, by B
};

struct Seen {
  std::set<std::string> findings;
  std::map<AdverseWorld::Site, uint64_t> sites;
  uint64_t exchanges[2] = {}, rewritten[2] = {}, calls = 0, works = 0;
  size_t leases[2] = {}, borrowed[2] = {}, open = 0;
  bool failed[2] = {}, refused[2] = {}, gone[2] = {};
  double took_s = 0;
};

/// Neighbours A and B, each with a device, and the link between them, which keeps the order.
class Street {
 public:
  explicit Street(const Setting& setting) : setting_(setting) {
    world_.left_out = setting.left_out;
    devices_[0].fail_call = setting.fail_call;
    devices_[0].fail_work = setting.fail_work;
  }

  Seen run() {
    for (Neighbour& one : neighbours_)
      world_.at(0, [&one] { one.start(); });
    if (setting_.kill_at_s > 0) world_.at(setting_.kill_at_s, [this] { kill(); });
    for (Neighbour& one : neighbours_) {
      if (setting_.cut_at_s > 0) world_.at(setting_.cut_at_s, [&one] { one.cut(); });
      if (setting_.end_at_s > 0) world_.at(setting_.end_at_s, [&one] { one.end(); });
    }
    if (!world_.run(kMostSteps)) world_.judge().find("stuck: it goes on for ever");
    for (Adversary& device : devices_)
      device.finish_all();
    for (Neighbour& one : neighbours_)
      world_.after(0, [&one] { one.end(); });
    if (!world_.run(kMostSteps)) world_.judge().find("stuck: it does not end");
    return seen();
  }

 private:
  static constexpr uint64_t kMostSteps = 100000;

  Neighbour::Outside outside(size_t me) {
    return {[this](std::function<void()> what) {
              world_.after(world_.chance(1e-5, 1e-3), std::move(what));
            },
            [this, me](Note note) { send(me, note); },
            [this](size_t n) { return world_.random().below(static_cast<uint32_t>(n)); },
            [this](const char* kind, grapevine::Where where) {
              return world_.leaves_out(kind, where);
            }};
  }

  /// A message takes what its sender knows along; the end of a process all that it ever did.
  void send(size_t me, Note note) {
    Judge& judge = world_.judge();
    const bool has_died = devices_[me].lost() && note.kind == Note::Kind::eof;
    const Judge::Clock known = has_died ? devices_[me].all() : judge.clock(devices_[me].host());
    judge.tick(devices_[me].host());
    if (setting_.is_refused && me == 0 && note.kind == Note::Kind::hello) note.memory = nullptr;
    arrives_s_[me] = std::max(arrives_s_[me], world_.now() + world_.chance(1e-5, 1e-3));
    world_.at(arrives_s_[me], [this, me, known, note] {
      world_.judge().learn(devices_[1 - me].host(), known);
      neighbours_[1 - me].receive(note);
    });
  }

  void kill() {
    neighbours_[0].vanish();
    devices_[0].kill();
    killed_ = true;
    send(0, {Note::Kind::eof});
  }

  Seen seen() {
    Seen s;
    s.findings = world_.judge().findings();
    s.sites = world_.sites;
    s.calls = devices_[0].calls;
    s.works = devices_[0].works;
    s.took_s = world_.now();
    for (const auto& [descriptor, memory] : world_.shared)
      s.open += !memory.expired();
    for (size_t me = 0; me < 2; ++me) {
      const bool is_dead = killed_ && me == 0;
      s.exchanges[me] = neighbours_[me].exchanges();
      s.rewritten[me] = neighbours_[me].rewritten();
      s.leases[me] = is_dead ? 0 : neighbours_[me].leases();
      s.borrowed[me] = is_dead ? 0 : neighbours_[me].borrowed();
      s.failed[me] = neighbours_[me].has_failed();
      s.refused[me] = neighbours_[me].was_refused();
      s.gone[me] = neighbours_[me].gone();
    }
    return s;
  }

  Setting setting_;
  AdverseWorld world_{setting_.seed};
  Adversary devices_[2] = {{world_, "A"}, {world_, "B"}};
  Neighbour neighbours_[2] = {{devices_[0], outside(0), kSize, kExchanges},
                              {devices_[1], outside(1), kSize, kExchanges}};
  double arrives_s_[2] = {};
  bool killed_ = false;
};

/// Of four, one runs to its end, one is cut and one ended in the middle, and of one A is killed.
Setting plain(uint64_t seed) {
  Setting s{seed};
  const double middle_s = 0.001 * static_cast<double>(1 + seed % 61);
  if (seed % 4 == 1) s.cut_at_s = middle_s;
  if (seed % 4 == 2) s.end_at_s = middle_s;
  if (seed % 4 == 3) s.kill_at_s = middle_s;
  return s;
}

const std::set<std::string> kNothing;

void check_end(const Seen& s, size_t me) {
  CHECK(s.leases[me] == 0);
  CHECK(s.borrowed[me] == 0);
  CHECK(s.gone[me]);
}

}  // namespace

TEST_CASE(
    "neighbours that read each other's snapshots in place: nothing is found over many seeds") {
  uint64_t exchanges = 0, rewritten = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const Seen s = Street(plain(seed)).run();
    INFO("seed " << seed);
    CHECK(s.findings == kNothing);
    CHECK(s.open == 0);  // all memory has been given back
    for (const size_t me : {0, 1}) {
      check_end(s, me);
      CHECK_FALSE((s.failed[me] || s.refused[me]));
      if (seed % 4 == 0) CHECK(s.exchanges[me] == kAllExchanges);
    }
    exchanges += s.exchanges[1];
    rewritten += s.rewritten[1];
  }
  CHECK(exchanges > 250 * kAllExchanges);
  CHECK(exchanges < 1000 * kAllExchanges);
  CHECK(rewritten > 1000);
  CHECK(Street(plain(5)).run().took_s == Street(plain(5)).run().took_s);
}

TEST_CASE("each line that records, waits, marks, drains or is told is found when it is left out") {
  std::map<AdverseWorld::Site, uint64_t> sites;
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8})
    sites.merge(Street(plain(seed)).run().sites);
  CHECK(sites.size() == 14);
  for (const auto& [site, calls] : sites) {
    int found = 0;
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      Setting s = plain(seed);
      s.left_out = site;
      found += !Street(s).run().findings.empty();
    }
    INFO(site.first << " at " << site.second << ", called " << calls << " times, found in " << found
                    << " of 40 runs");
    CHECK(found >= 5);
  }
}

TEST_CASE("each call and each piece of work of one neighbour fails: the other has its slots back") {
  const Seen whole = Street({4}).run();
  REQUIRE(whole.calls > 100);
  REQUIRE(whole.works > 50);
  uint64_t failed = 0;
  for (uint64_t k = 1; k <= whole.calls + whole.works; ++k) {
    Setting s{k % 7 + 1};
    (k <= whole.calls ? s.fail_call : s.fail_work) = k <= whole.calls ? k : k - whole.calls;
    const Seen seen = Street(s).run();
    INFO("call " << s.fail_call << ", work " << s.fail_work << ", seed " << s.seed);
    CHECK(seen.findings == kNothing);
    for (const size_t me : {0, 1})
      CHECK((seen.leases[me] == 0 && seen.gone[me]));
    CHECK(seen.borrowed[1] == 0);
    CHECK_FALSE((seen.failed[1] || seen.refused[1]));
    if (seen.failed[0] && seen.exchanges[1] < kAllExchanges)
      CHECK(seen.rewritten[1] == kRounds * Neighbour::kSlots);
    failed += seen.failed[0];
  }
  CHECK(failed > (whole.calls + whole.works) / 2);
}

TEST_CASE("the process of one neighbour is killed at any moment: the other has its slots back") {
  uint64_t amid = 0;
  for (uint64_t k = 1; k <= 500; ++k) {
    Setting s{k};
    s.kill_at_s = 3e-4 * static_cast<double>(k);
    const Seen seen = Street(s).run();
    INFO("killed at " << s.kill_at_s << " s, seed " << k);
    CHECK(seen.findings == kNothing);
    CHECK(seen.open == 0);  // what the dead one lent has been given back, too
    check_end(seen, 1);
    CHECK_FALSE((seen.failed[1] || seen.refused[1]));
    CHECK(seen.rewritten[1] == kRounds * Neighbour::kSlots);
    amid += seen.exchanges[1] > 0 && seen.exchanges[1] < kAllExchanges;
  }
  CHECK(amid > 200);
}

TEST_CASE("memory that cannot be opened is an answer, and nothing is borrowed") {
  Setting s{1};
  s.is_refused = true;
  const Seen seen = Street(s).run();
  CHECK(seen.findings == kNothing);
  CHECK(seen.refused[1]);
  CHECK_FALSE((seen.failed[0] || seen.failed[1] || seen.refused[0]));
  CHECK(seen.exchanges[0] + seen.exchanges[1] == 0);
}

namespace {

/// A lender's pool of three slots, all of them taken; what is posted is done by finish_all().
struct Pool {
  AdverseWorld world{1};
  Adversary device{world, "A"};
  Fences fences{device};
  Stream rules;
  Block block;
  std::unique_ptr<SnapshotPool> slots;
  ToOwner later = [this](std::function<void()> what) { world.after(1e-6, std::move(what)); };

  Pool() {
    REQUIRE(fences.make_stream(Fences::Kind::shared, rules) == Fate::ok);
    REQUIRE(device.allocate(SnapshotPool::bytes_for(kSize, DType::f32, 3), Block::Kind::shared,
                            block) == Fate::ok);
    slots = std::make_unique<SnapshotPool>(fences, block, kSize, DType::f32, 3);
  }
  Lease snapshot() {
    Lease out = slots->take(rules);
    Fence taken;
    REQUIRE(fences.record(rules, taken) == Fate::ok);
    out.set_ready(taken);
    return out;
  }
};

}  // namespace

TEST_CASE("a slot comes back once, to the number it was lent by, and to no other") {
  Pool pool;
  SnapshotLender lender(pool.fences, pool.block, kSize, DType::f32, pool.later);
  std::vector<LentSlot> told;
  const auto tell = [&](LentSlot lent) { told.push_back(lent); };
  lender.lend(pool.snapshot(), tell);
  CHECK_FALSE(lender.released({0, 0}));  // which nobody has been told
  CHECK_FALSE(lender.released({0, 1}));
  pool.world.run();
  REQUIRE(told == std::vector<LentSlot>{{0, 1}});
  for (const LentSlot& forged : {LentSlot{0, 0}, {0, 2}, {1, 1}, {3, 1}, {~0u, 1}, {0, ~0ull}})
    CHECK_FALSE(lender.released(forged));
  CHECK(pool.slots->in_use() == 1);
  CHECK(lender.released({0, 1}));
  CHECK(pool.slots->in_use() == 0);
  lender.lend(pool.snapshot(), tell);
  pool.world.run();
  REQUIRE(told.back() == LentSlot{0, 2});
  CHECK_FALSE(lender.released({0, 1}));  // said twice: the slot is lent anew
  CHECK(lender.lent() == 1);
  lender.ended();
  CHECK_FALSE(lender.released({0, 2}));
  CHECK(pool.slots->in_use() == 0);
}

TEST_CASE("the end comes before a snapshot is there: nobody is told, and the slot is back") {
  Pool pool;
  SnapshotLender lender(pool.fences, pool.block, kSize, DType::f32, pool.later);
  bool was_told = false;
  lender.lend(pool.snapshot(), [&](LentSlot) { was_told = true; });
  lender.ended();
  CHECK(pool.slots->in_use() == 0);
  lender.lend(pool.snapshot(), [&](LentSlot) { was_told = true; });
  CHECK(pool.slots->in_use() == 0);
  pool.world.run();
  CHECK_FALSE(was_told);
}

TEST_CASE("a slot that is lent to one borrower several times comes back with the last of them") {
  Pool pool;
  SnapshotLender lender(pool.fences, pool.block, kSize, DType::f32, pool.later);
  std::vector<LentSlot> told;
  {
    const Lease broadcast = pool.snapshot();
    for (int k = 0; k < 3; ++k)
      lender.lend(broadcast, [&](LentSlot lent) { told.push_back(lent); });
  }
  pool.world.run();
  REQUIRE(told == std::vector<LentSlot>{{0, 1}, {0, 2}, {0, 3}});
  CHECK(lender.lent() == 3);
  CHECK(lender.released({0, 2}));
  CHECK_FALSE(lender.released({0, 2}));
  CHECK(lender.released({0, 3}));
  CHECK(pool.slots->in_use() == 1);
  CHECK(lender.released({0, 1}));
  CHECK(pool.slots->in_use() == 0);
  CHECK(pool.world.judge().findings() == kNothing);
}

TEST_CASE("nothing is borrowed that is old, outside of the block, too much, or after the end") {
  Pool pool;
  int exported = -1;
  REQUIRE(pool.device.share(pool.block, exported) == Fate::ok);
  const Descriptor memory(exported);
  Adversary device(pool.world, "B");
  Fences fences(device);
  std::vector<LentSlot> released;
  SnapshotBorrower borrower(device, fences, kSize, DType::f32, pool.later,
                            [&](LentSlot lent) { released.push_back(lent); });
  CHECK_FALSE(borrower.borrow({0, 1}));  // nothing is open
  CHECK(borrower.open(memory.fd(), 0) == Fate::out_of_memory);
  CHECK(borrower.open(-1, 3) == Fate::out_of_memory);
  CHECK(borrower.open(STDIN_FILENO, 3) == Fate::out_of_memory);
  CHECK(borrower.open(memory.fd(), 4) == Fate::out_of_memory);  // more than there are
  CHECK(borrower.open(memory.fd(), ~0u) == Fate::out_of_memory);
  REQUIRE(borrower.open(memory.fd(), 3) == Fate::ok);
  Lease first = borrower.borrow({1, 5});
  REQUIRE(first);
  CHECK(first.on_device());
  CHECK(first.ready() == nullptr);
  for (const LentSlot& forged : {LentSlot{1, 5}, {2, 5}, {2, 4}, {2, 0}, {3, 6}, {~0u, 6}})
    CHECK_FALSE(borrower.borrow(forged));
  Lease second = borrower.borrow({2, 6});
  REQUIRE(second);
  first = {};
  pool.world.run();
  CHECK(released == std::vector<LentSlot>{{1, 5}});
  bool has_ended = false;
  borrower.end([&] { has_ended = true; });
  pool.world.run();
  CHECK_FALSE(has_ended);  // one is out
  CHECK_FALSE(borrower.borrow({0, 7}));
  second = {};
  pool.world.run();
  CHECK(has_ended);
  CHECK(released.size() == 1);
}

TEST_CASE("no more is borrowed than an honest lender lends; what the owner left is given back") {
  Pool pool;
  int exported = -1;
  REQUIRE(pool.device.share(pool.block, exported) == Fate::ok);
  const Descriptor memory(exported);
  Adversary device(pool.world, "B");
  Fences fences(device);
  std::vector<Lease> leases;
  {
    SnapshotBorrower borrower(
        device, fences, kSize, DType::f32, [](auto) {}, [](LentSlot) {});
    REQUIRE(borrower.open(memory.fd(), 3) == Fate::ok);
    for (uint64_t k = 1; k <= SnapshotBorrower::kMost; ++k)
      leases.push_back(borrower.borrow({static_cast<uint32_t>(k % 3), k}));
    CHECK(leases.back());
    CHECK_FALSE(borrower.borrow({0, SnapshotBorrower::kMost + 1}));
    CHECK(device.drain() == Fate::ok);
    borrower.abandon();
    CHECK(borrower.borrowed() == 0);
  }
  REQUIRE(pool.device.free(pool.block, grapevine::Where::current()) == Fate::ok);
  leases.clear();
  for (const auto& [descriptor, shared] : pool.world.shared)
    CHECK(shared.expired());
  CHECK(pool.world.judge().findings() == kNothing);
}
