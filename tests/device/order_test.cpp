// Two owners of devices that trade snapshots: right over many seeds, found out where any call that
// orders something is left out, and unharmed by each other's failures.
#include <algorithm>

#include "tests/catch.hpp"
#include "tests/device/owner.hpp"

using namespace grapevine::testing;

namespace {

constexpr size_t kSize = 50;
constexpr uint64_t kGradients = 8, kExchanges = 5;  // of a rank
constexpr uint64_t kAllGradients = kGradients * Owner::kRanks;
constexpr uint64_t kAllExchanges = kExchanges * Owner::kRanks;

struct Setting {
  uint64_t seed = 1;
  std::optional<AdverseWorld::Site> left_out = {};
  uint64_t fail_call = 0, fail_work = 0;  // of A
  double kill_at_s = 0;                   // A's process; 0: not
  double end_at_s = 0;                    // both, in the middle of everything; 0: when all is done
};

struct Seen {
  std::set<std::string> findings;
  std::map<AdverseWorld::Site, uint64_t> sites;
  uint64_t gradients[2] = {}, exchanges[2] = {}, untold[2] = {}, leases[2] = {};
  uint64_t calls = 0, works = 0, events = 0;
  bool failed[2] = {};
  double took_s = 0;

  bool has(const char* words) const {
    return std::any_of(findings.begin(), findings.end(),
                       [&](const std::string& f) { return f.find(words) == 0; });
  }
};

/// Owners A and B, each with a device, and the messages between them.
class Pair {
 public:
  explicit Pair(const Setting& setting) : setting_(setting) {
    world_.left_out = setting.left_out;
    devices_[0].fail_call = setting.fail_call;
    devices_[0].fail_work = setting.fail_work;
  }

  Seen run() {
    for (Owner& owner : owners_)
      world_.at(0, [&owner] { owner.start(); });
    if (setting_.kill_at_s > 0) world_.at(setting_.kill_at_s, [this] { kill(); });
    for (size_t me = 0; setting_.end_at_s > 0 && me < 2; ++me)
      world_.at(setting_.end_at_s * static_cast<double>(me + 1), [this, me] { owners_[me].end(); });
    if (!world_.run(kMostSteps)) world_.judge().find("stuck: it goes on for ever");
    for (Adversary& device : devices_)
      device.finish_all();
    for (Owner& owner : owners_)
      world_.after(0, [&owner] { owner.end(); });
    if (!world_.run(kMostSteps)) world_.judge().find("stuck: it does not end");
    return seen();
  }

 private:
  static constexpr uint64_t kMostSteps = 100000;

  Owner::Outside outside(size_t me) {
    return {[this](std::function<void()> what) {
              world_.after(world_.chance(1e-5, 1e-3), std::move(what));
            },
            [this, me](Parcel parcel) { send(me, std::move(parcel)); },
            [this](size_t n) { return world_.random().below(static_cast<uint32_t>(n)); },
            [this](const char* kind, grapevine::Where where) {
              return world_.leaves_out(kind, where);
            }};
  }

  /// A message takes what its sender knows along.
  void send(size_t me, Parcel parcel) {
    const Judge::Clock known = world_.judge().clock(devices_[me].host());
    world_.judge().tick(devices_[me].host());
    world_.after(world_.chance(1e-5, 1e-3), [this, me, known, parcel = std::move(parcel)] {
      world_.judge().learn(devices_[1 - me].host(), known);
      owners_[1 - me].receive(parcel);
    });
  }

  void kill() {
    owners_[0].vanish();
    devices_[0].kill();
    killed_ = true;
    world_.after(1e-2, [this] { owners_[1].receive({Parcel::Kind::down}); });
  }

  Seen seen() {
    Seen s;
    s.findings = world_.judge().findings();
    s.sites = world_.sites;
    s.calls = devices_[0].calls;
    s.works = devices_[0].works;
    s.took_s = world_.now();
    s.events = owners_[0].events();
    for (size_t me = 0; me < 2; ++me) {
      s.gradients[me] = owners_[me].gradients();
      s.exchanges[me] = owners_[me].exchanges();
      s.untold[me] = killed_ && me == 0 ? 0 : owners_[me].untold();
      s.leases[me] = killed_ && me == 0 ? 0 : owners_[me].leases();
      s.failed[me] = owners_[me].has_failed();
    }
    return s;
  }

  Setting setting_;
  AdverseWorld world_{setting_.seed};
  Adversary devices_[2] = {{world_, "A"}, {world_, "B"}};
  Owner owners_[2] = {{devices_[0], outside(0), kSize, kGradients, kExchanges},
                      {devices_[1], outside(1), kSize, kGradients, kExchanges}};
  bool killed_ = false;
};

/// Every second one ends in the middle of the work.
Setting plain(uint64_t seed) {
  Setting s{seed};
  if (seed % 2 == 0) s.end_at_s = 0.001 * static_cast<double>(1 + seed % 47);
  return s;
}

const std::set<std::string> kNothing;

}  // namespace

TEST_CASE("two owners that order what must be ordered: nothing is found over many seeds") {
  uint64_t gradients = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const Seen s = Pair(plain(seed)).run();
    INFO("seed " << seed);
    CHECK(s.findings == kNothing);
    CHECK(s.untold[0] + s.untold[1] == 0);
    CHECK(s.leases[0] + s.leases[1] == 0);
    CHECK(s.events < 40);  // they come back
    CHECK_FALSE((s.failed[0] || s.failed[1]));
    gradients += s.gradients[0];
    if (seed % 2 == 0) continue;
    CHECK(s.gradients[0] == kAllGradients);
    CHECK(s.exchanges[1] == kAllExchanges);
  }
  CHECK(gradients > 500 * kAllGradients);
  CHECK(gradients < 1000 * kAllGradients);
  CHECK(Pair(plain(7)).run().took_s == Pair(plain(7)).run().took_s);
}

TEST_CASE("each line that records, waits, asks, marks or keeps is found when it is left out") {
  std::map<AdverseWorld::Site, uint64_t> sites;
  for (const uint64_t seed : {1, 2})
    sites.merge(Pair(plain(seed)).run().sites);
  CHECK(sites.size() == 27);
  for (const auto& [site, calls] : sites) {
    int found = 0, raced = 0, differed = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      Setting s = plain(seed);
      s.left_out = site;
      const Seen seen = Pair(s).run();
      found += !seen.findings.empty();
      raced += seen.has("race");
      differed += seen.has("value");
      CHECK((raced >= 1 || differed == 0));  // the clocks see all that the golden twin sees
    }
    INFO(site.first << " at " << site.second << ", called " << calls << " times, found in " << found
                    << " of 20 runs, raced in " << raced << ", differed in " << differed);
    CHECK(found >= 10);
  }
}

TEST_CASE("each call and each piece of work of one owner fails: the other one goes on") {
  const Seen whole = Pair({3}).run();
  REQUIRE(whole.calls > 100);
  REQUIRE(whole.works > 50);
  uint64_t failed = 0;
  for (uint64_t k = 1; k <= whole.calls + whole.works; ++k) {
    Setting s{k % 7 + 1};
    (k <= whole.calls ? s.fail_call : s.fail_work) = k <= whole.calls ? k : k - whole.calls;
    const Seen seen = Pair(s).run();
    INFO("call " << s.fail_call << ", work " << s.fail_work << ", seed " << s.seed);
    CHECK(seen.findings == kNothing);
    CHECK(seen.untold[0] + seen.untold[1] == 0);
    CHECK(seen.leases[0] + seen.leases[1] == 0);
    CHECK_FALSE(seen.failed[1]);
    CHECK(seen.gradients[1] == kAllGradients);
    failed += seen.failed[0];
  }
  CHECK(failed > (whole.calls + whole.works) / 2);
}

TEST_CASE("the process of one owner is killed at any moment: the other one goes on") {
  for (uint64_t k = 1; k <= 300; ++k) {
    Setting s{k};
    s.kill_at_s = 5e-4 * static_cast<double>(k);
    const Seen seen = Pair(s).run();
    INFO("killed at " << s.kill_at_s << " s, seed " << k);
    CHECK(seen.findings == kNothing);
    CHECK(seen.untold[1] == 0);
    CHECK(seen.leases[1] == 0);
    CHECK(seen.gradients[1] == kAllGradients);
  }
}
