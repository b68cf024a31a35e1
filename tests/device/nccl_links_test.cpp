// Nodes whose payloads go by NCCL, a fake that moves them between their devices: what two nodes
// agree on, what comes of it when they cross, refuse, die or lie, and that no edge harms another.
#include "actors/device/nccl_links.hpp"

#include <algorithm>
#include <map>

#include "actors/run/run.hpp"
#include "actors/run/state_sizes.hpp"
#include "tests/catch.hpp"
#include "tests/messages/malicious_member.hpp"
#include "tests/run/device_town.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr uint64_t kEdge = 77;  // of who calls and is in a test's hands
constexpr DeviceLink kAuto = DeviceLink::automatic, kNccl = DeviceLink::nccl;

/// a and b have met.
void meet(Town& town) {
  town["a"].send(1, 0);
  town.go_on();
  town["b"].came.clear();
  town.go_on();
  REQUIRE(town["a"].edge("b").has_nccl);
  REQUIRE(town["b"].edge("a").has_nccl);
  town["a"].sent_by_host = 0;
}

/// The one payload that a node has, of that value.
void check_came(Home& home, float value) {
  REQUIRE(home.came.size() == 1);
  home.check_value(home.came[0], value);
  home.came.clear();
}

bool has_said(const Home& home, const std::string& what) {
  return std::any_of(home.lines.begin(), home.lines.end(),
                     [&](const std::string& line) { return line.find(what) != std::string::npos; });
}

void check_nothing_left(Town& town) {
  for (const auto& home : town.homes)
    home->came.clear();
  town.go_on();
  for (const auto& home : town.homes) {
    INFO("node " << home->name);
    CHECK(home->pool->in_use() == 0);
  }
  CHECK(town.world.judge().findings() == kNothing);
}

}  // namespace

TEST_CASE("payloads go by the host until two communicators have met, and by NCCL from then on") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Town town(seed, Town::kByNccl);
    for (uint64_t k = 1; k <= 5; ++k) {
      town["a"].send(1, static_cast<float>(k), k);
      town.go_on();
      check_came(town["b"], static_cast<float>(k));
      town["b"].send(0, static_cast<float>(10 + k), k);
      town.go_on();
      check_came(town["a"], static_cast<float>(10 + k));
    }
    CHECK(town["a"].sent_by_host == 1);
    CHECK(town["b"].sent_by_host == 0);
    const DeviceEdge a = town["a"].edge("b"), b = town["b"].edge("a");
    CHECK((a.has_nccl && a.why.empty() && a.sent_by_nccl == 4 && a.received_by_nccl == 5));
    CHECK((b.has_nccl && b.why.empty() && b.sent_by_nccl == 5 && b.received_by_nccl == 4));
    CHECK(town.nccl.connected == 1);
    CHECK(has_said(town["a"], "for b go by NCCL"));
    CHECK(has_said(town["b"], "for a go by NCCL"));
    check_nothing_left(town);
  }
}

TEST_CASE("of two requests that cross one stands, and the other one's payload comes back in it") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const size_t back : {size_t{3}, kCount}) {
      INFO("seed " << seed << ", " << back << " floats come back");
      Town town(seed, Town::kByNccl);
      meet(town);
      for (uint64_t k = 1; k <= 5; ++k) {
        town["a"].send(1, 1, k);
        town["b"].send(0, 2, k, back);
        town.go_on();
        check_came(town["b"], 1);
        check_came(town["a"], 2);
      }
      CHECK(town.nccl.exchanged == 5);
      CHECK(town.nccl.bytes == 5 * (kCount + back) * sizeof(float));
      CHECK(town["a"].edge("b").sent_by_nccl == 5);
      CHECK(town["b"].edge("a").sent_by_nccl == 5);
      CHECK((town["a"].sent_by_host == 0 && town["b"].sent_by_host == 0));
      check_nothing_left(town);
    }
  }
}

TEST_CASE("a payload that would come back and finds too little room goes by the host") {
  Town town(1, Town::kByNccl);
  meet(town);
  town["a"].send(1, 1, 1, 3);
  town["b"].send(0, 2, 1);
  town.go_on();
  check_came(town["b"], 1);
  check_came(town["a"], 2);
  CHECK(town["b"].sent_by_host == 1);
  CHECK((town["a"].edge("b").sent_by_nccl == 1 && town["b"].edge("a").sent_by_nccl == 0));
  check_nothing_left(town);
}

TEST_CASE("a payload of nothing goes by the host") {
  Town town(1, Town::kByNccl);
  meet(town);
  town["a"].send(1, 1, 1, 0);
  town.go_on();
  CHECK(town["b"].came.size() == 1);
  CHECK(town["a"].sent_by_host == 1);
  check_nothing_left(town);
}

TEST_CASE("a device has one exchange at a time, and who is declined sends by the host") {
  uint64_t by_nccl = 0, by_host = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    Town town(seed, Town::kByNccl);
    for (uint64_t k = 1; k <= 8; ++k) {
      for (const auto& home : town.homes)
        for (uint32_t to = 0; to < 3; ++to)
          if (to != home->rank) home->send(to, static_cast<float>(10 * home->rank + to), k);
      town.go_on();
      for (const auto& home : town.homes) {
        REQUIRE(home->came.size() == 2);
        for (const Frame& frame : home->came)
          home->check_value(frame, static_cast<float>(10 * frame.header.from + home->rank));
        home->came.clear();
      }
      town.go_on();
    }
    for (const auto& home : town.homes) {
      by_host += static_cast<uint64_t>(home->sent_by_host);
      for (const DeviceEdge& edge : home->links->edges()) {
        CHECK((edge.has_nccl && edge.broken_by_nccl == 0));
        by_nccl += edge.sent_by_nccl;
      }
    }
    CHECK(town.nccl.connected == 3);
    check_nothing_left(town);
  }
  CHECK(by_nccl + by_host == 60 * 8 * 6);
  CHECK(by_nccl > 500);
  CHECK(by_host > 500);
}

TEST_CASE("a node of another --link or another NCCL is sent by the host, and both say why") {
  Town town(1, {kNccl, kAuto, kNccl}, 22000);
  for (uint64_t k = 1; k <= 3; ++k) {
    town["a"].send(1, 1, k);
    town["a"].send(2, 2, k);
    town.go_on();
    check_came(town["b"], 1);
    check_came(town["c"], 2);
  }
  CHECK(town["a"].edge("b").why == "its --link is another one");
  CHECK(town["a"].edge("c").why == "its NCCL is another version");
  CHECK(town["c"].edge("a").why == "its NCCL is 22809, and here it is 22000");
  CHECK(town["a"].sent_by_host == 6);
  CHECK(std::count_if(town["a"].lines.begin(), town["a"].lines.end(), [](const auto& line) {
          return line.find("for b go through the host") == 10;
        }) == 1);
  CHECK(town.nccl.standing() == 0);
  check_nothing_left(town);
}

TEST_CASE("nothing is connected where links take no messages, and everything once they do") {
  Town town(1, Town::kByNccl);
  town["a"].takes_no_messages = true;
  for (uint64_t k = 1; k <= 20; ++k) {
    town["a"].send(1, 1, k);
    town.go_on();
    check_came(town["b"], 1);
  }
  CHECK(town.nccl.standing() == 0);
  town["a"].takes_no_messages = false;
  meet(town);
  town["a"].takes_no_messages = true;
  town["a"].send(1, 2);  // cannot be requested
  town.go_on();
  check_came(town["b"], 2);
  town["b"].send(0, 3);  // cannot be granted, nor is the end told
  town.go_on();
  check_came(town["a"], 3);
  CHECK(town["b"].edge("a").why.size() > 5);
  check_nothing_left(town);
}

TEST_CASE("when a link ends its edge does, and there is another one with the next link") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    Town town(seed, Town::kByNccl);
    meet(town);
    for (uint64_t k = 1; k <= 3; ++k) {
      town["a"].send(1, 1, k);
      town["b"].send(0, 2, k);
      town["a"].send(2, 3, k);
      for (uint64_t step = 0; step < seed; ++step)  // in the middle of it
        town.world.step();
      town.cut("a", "b");
      town.go_on();
      CHECK_FALSE(town["a"].edge("b").has_nccl);
      check_came(town["c"], 3);
      town["a"].came.clear();
      town["b"].came.clear();
      town.go_on();
      meet(town);
    }
    CHECK(town["a"].edge("c").broken_by_nccl == 0);
    check_nothing_left(town);
  }
}

TEST_CASE("whatever NCCL does, every payload comes, and what broke off is counted and told") {
  uint64_t by_nccl = 0, broken = 0, written_off = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    Town town(seed, Town::kByNccl);
    town.nccl.begins_not = 0.05;
    town.nccl.meets_never = 0.1;
    town.nccl.queues_never = town.nccl.errs = 0.05;
    town.nccl.lets_go_never = 0.2;
    for (uint64_t k = 1; k <= 12; ++k) {
      std::map<std::pair<uint32_t, uint32_t>, int> wanted;
      for (const auto& home : town.homes) {
        for (uint32_t to = 0; to < 3; ++to) {
          const bool has_room = home->pool->in_use() < kSlots;
          if (to == home->rank || town.world.random().below(3) == 0 || !has_room) continue;
          home->send(to, static_cast<float>(10 * home->rank + to), k);
          wanted[{home->rank, to}] = 1;
        }
      }
      town.go_on();
      for (const auto& home : town.homes) {
        for (const Frame& frame : home->came) {  // some twice, whose first way broke off too late
          home->check_value(frame, static_cast<float>(10 * frame.header.from + home->rank));
          wanted.erase({frame.header.from, home->rank});
        }
        home->came.clear();
      }
      CHECK(wanted.empty());
      town.go_on();
    }
    for (const auto& home : town.homes) {
      uint64_t broken_here = 0;
      for (const DeviceEdge& edge : home->links->edges()) {
        by_nccl += edge.sent_by_nccl;
        broken_here += edge.broken_by_nccl;
        CHECK((edge.broken_by_nccl == 0 || !edge.why.empty()));
      }
      CHECK((broken_here > 0) == has_said(*home, "by NCCL has failed"));
      broken += broken_here;
      written_off += home->pool->in_use();
      CHECK(home->pool->in_use() <= broken_here);
    }
    town.nccl.clear();
    check_nothing_left(town);
  }
  INFO(by_nccl << " by NCCL, " << broken << " broken off, " << written_off << " written off");
  CHECK(by_nccl > 2000);
  CHECK(broken > 100);
  CHECK(written_off > 10);
}

TEST_CASE("a device that fails at any call takes its own edges with it, and no other's") {
  const auto run = [](uint64_t fail_call) {
    Town town(1 + fail_call % 5, Town::kByNccl);
    Home& victim = town["a"];
    const uint64_t before = victim.device->calls;
    if (fail_call > 0) victim.device->fail_call = before + fail_call;
    for (uint64_t k = 1; k <= 4; ++k) {
      for (const uint32_t to : {1u, 2u})
        victim.send(to, 1, k);
      for (const char* name : {"b", "c"})
        town[name].send(0, 2, k);
      town["b"].send(2, 3, k);
      town.go_on();
      const auto has_come = [](const Frame& frame) { return frame.header.from == 1; };
      const std::vector<Frame>& came = town["c"].came;
      const auto found = std::find_if(came.begin(), came.end(), has_come);
      REQUIRE(found != came.end());
      town["c"].check_value(*found, 3);
      for (const auto& home : town.homes)
        home->came.clear();
      town.go_on();
    }
    CHECK((fail_call > 0) == victim.device->lost());
    CHECK(town["b"].edge("c").has_nccl);
    CHECK((town["b"].pool->in_use() == 0 && town["c"].pool->in_use() == 0));
    CHECK(town.world.judge().findings() == kNothing);
    return victim.device->calls - before;
  };
  const uint64_t calls = run(0);
  CHECK(calls > 50);
  for (uint64_t k = 1; k <= calls / 2; ++k) {
    INFO("call " << k);
    run(k);
  }
}

TEST_CASE("what orders an exchange beside the passes is found out where it is left out") {
  std::set<AdverseWorld::Site> sites;
  const auto run = [&](uint64_t seed, const AdverseWorld::Site* left_out) {
    Town town(seed, Town::kByNccl);
    if (left_out != nullptr) town.world.left_out = *left_out;
    meet(town);
    for (uint64_t k = 1; k <= 10; ++k) {
      town["a"].send(1, static_cast<float>(k), k);
      town["b"].send(0, static_cast<float>(k), k);
      town.go_on();
      for (const char* name : {"a", "b"}) {
        if (left_out == nullptr)
          town[name].check_value(town[name].came.at(0), static_cast<float>(k));
        town[name].came.clear();
      }
    }
    for (const auto& [site, count] : town.world.sites)
      if (site.second.find("nccl_edge") == 0 || (site.second.find("device_dock") == 0 &&
                                                 (site.first == "record" || site.first == "wait")))
        sites.insert(site);
    return !town.world.judge().findings().empty();
  };
  CHECK_FALSE(run(1, nullptr));
  CHECK(sites.size() == 6);  // behind the passes; and what tells that it is over, by the host too
  for (const AdverseWorld::Site& site : std::set(sites)) {
    int found = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed)
      found += run(seed, &site);
    INFO(site.first << " at " << site.second << ": found in " << found << " of 20");
    CHECK(found >= 10);
  }
}

TEST_CASE("a run by NCCL has room for what broken edges may keep, each way") {
  for (const char* method : {"a2cid2", "d_psgd", "sgp", "all_reduce"}) {
    Settings s;
    s.method = method;
    s.ranks = 8;
    s.local_ranks = 2;
    s.objective.objective = "quadratic";
    s.objective.dim = 1000;
    const auto objective = make_objective(s);
    REQUIRE(objective);
    const DeviceSizes without = device_sizes(s, **objective);
    s.device_link = kNccl;
    const DeviceSizes with = device_sizes(s, **objective);
    // In fp64: the model, or a part of a ring of 8.
    const size_t sent = std::string(method) == "all_reduce" ? 1000 / 4 * 8 : 1000 * 8;
    INFO(method);
    CHECK(with.lent_bytes >= without.lent_bytes + NcclOptions().most_edges * sent);
    CHECK(with.exchange_bytes >= without.exchange_bytes + NcclOptions().most_edges * sent);
    CHECK(with.memory_bytes() <= without.memory_bytes() + NcclOptions().most_edges * 2 * 8192);
  }
}

// --- nodes in a test's hands

namespace {

/// With a device and an NCCL of its own: it may connect as honest nodes do.
class Stranger {
 public:
  Stranger(Town& town, std::string name)
      : town_(town),
        name_(std::move(name)),
        device_(town.world, name_),
        nccl_(town.nccl.of(device_)) {}
  ~Stranger() { town_.nccl.kill(device_); }

  /// As who is called, or who calls.
  void connect() {
    for (const Town::Said& said : town_.said_to_evil)
      if (const auto* call = std::get_if<NcclConnect>(&said.what.what); call && said.to == name_)
        nccl_.calls.init(call->id, 1, comm_);
  }
  void call(const std::string& node) {
    const NcclId id = *nccl_.make_id();
    nccl_.calls.init(id, 0, comm_);
    town_.tell(name_, node, {kEdge, NcclConnect{id, NcclWorld::kVersion}});
  }
  /// The last message of that kind that it got; null: none.
  template <class Kind>
  const Kind* heard() const {
    const Kind* last = nullptr;
    for (const Town::Said& said : town_.said_to_evil)
      if (const auto* what = std::get_if<Kind>(&said.what.what); what && said.to == name_)
        last = what;
    return last;
  }

 private:
  Town& town_;
  const std::string name_;
  Adversary device_;
  Nccl nccl_;
  NcclComm comm_ = nullptr;
};

/// Checks nodes that the payloads of a for b must not affect.
void check_others(Town& town, uint64_t k) {
  town["a"].send(1, static_cast<float>(k), k);
  town.go_on();
  check_came(town["b"], static_cast<float>(k));
}

FrameHeader data_of(uint32_t from, size_t count) {
  FrameHeader h;
  h.kind = FrameKind::data;
  h.from = from;
  h.to = 0;
  h.count = count;
  return h;
}

}  // namespace

TEST_CASE("a node that never connects is given up, and others exchange as soon as it is") {
  Town town(1, Town::kByNccl);
  meet(town);
  town["a"].send(3, 1);
  const double begun_s = town.world.now();
  town.go_on();
  CHECK(town.world.now() - begun_s >= 10);
  CHECK(town["a"].edge("evil").why == "the other end does not come");
  check_others(town, 2);
  CHECK(town["a"].edge("b").sent_by_nccl == 1);
  check_nothing_left(town);
}

TEST_CASE("a node that is asked and never answers breaks its edge alone, and its payload goes") {
  Town town(1, Town::kByNccl);
  meet(town);
  Stranger evil(town, Town::kEvil);
  town["a"].send(3, 1);
  while (!evil.heard<NcclConnect>() && town.tasks.step()) {
  }
  evil.connect();
  town.go_on();
  REQUIRE(town["a"].edge("evil").has_nccl);
  const int before = town["a"].sent_by_host;
  town["a"].send(3, 2);
  const double begun_s = town.world.now();
  town.go_on();
  CHECK((town.world.now() - begun_s >= 2 && town.world.now() - begun_s < 4));
  REQUIRE(evil.heard<NcclRequest>());
  CHECK(evil.heard<NcclRequest>()->number % 2 == 1);
  CHECK(town["a"].sent_by_host == before + 1);
  CHECK(town["a"].edge("evil").why == "it does not answer");
  CHECK(evil.heard<NcclEnd>()->reason == NcclEnd::Reason::broken);
  check_others(town, 2);
  CHECK(town["a"].edge("b").sent_by_nccl == 1);
  check_nothing_left(town);
}

TEST_CASE("a node that grants and does not exchange is given up, and what it held is written off") {
  Town town(1, Town::kByNccl);
  meet(town);
  town.nccl.lets_go_never = 1;
  Stranger evil(town, Town::kLowEvil);
  evil.call("a");
  town.go_on();
  REQUIRE(town["a"].edge("Evil").has_nccl);
  town["a"].send(4, 1);
  town.go_on(0.01);
  REQUIRE(evil.heard<NcclRequest>());
  const uint64_t number = evil.heard<NcclRequest>()->number;
  CHECK(number % 2 == 0);
  FrameHeader back = data_of(4, kCount);
  town.tell("Evil", "a", {kEdge, NcclGrant{number, back}});
  town.go_on();
  CHECK(town["a"].edge("Evil").broken_by_nccl == 1);
  CHECK(town["a"].edge("Evil").why == "the other end does not answer");
  CHECK(has_said(town["a"], "an exchange with Evil by NCCL has failed"));
  CHECK(town["a"].came.empty());
  CHECK(town["a"].pool->in_use() == 1);
  check_others(town, 2);  // goes on by the communicator that stands
  CHECK(town["a"].edge("b").sent_by_nccl == 1);
  town.nccl.clear();
  check_nothing_left(town);
}

TEST_CASE("what has no place ends the edge of who says it, whenever it is said") {
  const FrameHeader fits = data_of(4, kCount), large = data_of(4, kCount + 1);
  const std::vector<NcclTalk> lies{
      {kEdge, NcclConnect{{}, NcclWorld::kVersion}},  // once more
      {kEdge, NcclRequest{2, 100, fits}},             // a number of the other one's
      {kEdge, NcclRequest{0x1001, 100, fits}},        // far ahead
      {kEdge, NcclRequest{1, 100, large}},            // more than the job has
      {kEdge, NcclGrant{2, {}}},                      // not asked for
      {kEdge, NcclDecline{2}}};
  for (size_t k = 0; k < lies.size(); ++k) {
    for (const bool is_connected : {false, true}) {
      INFO("lie " << k << ", connected: " << is_connected);
      Town town(1, Town::kByNccl);
      meet(town);
      Stranger evil(town, Town::kLowEvil);
      evil.call("a");
      if (is_connected) town.go_on();
      town.tell("Evil", "a", lies[k]);
      town.go_on(1);
      CHECK(town["a"].edge("Evil").why == "it has sent a message out of order");
      REQUIRE(evil.heard<NcclEnd>());
      CHECK(evil.heard<NcclEnd>()->reason == NcclEnd::Reason::out_of_place);
      check_others(town, 2);
      check_nothing_left(town);
    }
  }
}

TEST_CASE("an answer to another request than the open one ends the edge, and the payload goes") {
  const NcclTalk lies[] = {{kEdge, NcclGrant{4, {}}},
                           {kEdge, NcclDecline{4}},
                           {kEdge, NcclGrant{2, data_of(4, kCount + 1)}}};  // or no room for that
  for (const NcclTalk& lie : lies) {
    Town town(1, Town::kByNccl);
    meet(town);
    Stranger evil(town, Town::kLowEvil);
    evil.call("a");
    town.go_on();
    town["a"].send(4, 1);
    town.go_on(0.01);
    REQUIRE(evil.heard<NcclRequest>());
    CHECK(evil.heard<NcclRequest>()->number == 2);
    town.tell("Evil", "a", lie);
    town.go_on();
    CHECK(town["a"].edge("Evil").why == "it has sent a message out of order");
    CHECK(town["a"].edge("Evil").broken_by_nccl == 0);
    CHECK(town["a"].sent_by_host == 1);
    check_others(town, 2);
    check_nothing_left(town);
  }
}

TEST_CASE("who calls in the middle of an exchange is connected before the next one begins") {
  Town town(1, Town::kByNccl);
  meet(town);
  town["a"].send(2, 0);
  town.go_on();
  REQUIRE(town["a"].edge("c").has_nccl);
  Stranger evil(town, Town::kLowEvil);
  const int by_host = town["a"].sent_by_host;
  town["a"].send(1, 1);
  while (!town.nccl.exchanges(*town["a"].device))
    REQUIRE(town.tasks.step());
  evil.call("a");
  while (town["a"].edge("b").sent_by_nccl == 0)
    REQUIRE(town.tasks.step());
  town["a"].send(2, 2);
  town.go_on();
  CHECK(town["a"].sent_by_host == by_host + 1);
  CHECK(town["a"].edge("Evil").has_nccl);
  town["a"].send(2, 3);
  town.go_on();
  CHECK(town["a"].edge("c").sent_by_nccl == 1);
  check_nothing_left(town);
}

TEST_CASE("a device whose exchange NCCL has not let go of takes no communicator more, at once") {
  Town town(1, Town::kByNccl);
  town["b"].send(2, 0);
  town.go_on();
  REQUIRE(town["b"].edge("c").has_nccl);
  town.nccl.lets_go_never = 1;
  {
    Stranger evil(town, Town::kLowEvil);
    evil.call("b");
    town.go_on();
    town["b"].send(4, 1);
    town.go_on(0.01);
    REQUIRE(evil.heard<NcclRequest>());
    town.tell("Evil", "b", {kEdge, NcclGrant{evil.heard<NcclRequest>()->number, {}}});
    town.go_on();
    REQUIRE(town["b"].edge("Evil").broken_by_nccl == 1);
  }
  town["a"].send(1, 2);
  town.go_on(0.5);
  CHECK(town["a"].edge("b").why == "its device can take no communicator now");
  CHECK(town["b"].edge("a").why.find("NCCL has not released one") != std::string::npos);
  town["b"].send(2, 3);
  town.go_on();
  CHECK(town["b"].edge("c").sent_by_nccl == 1);
  town.nccl.clear();
  check_nothing_left(town);
}

TEST_CASE("what is said of an edge that is none is not heard") {
  Town town(1, Town::kByNccl);
  Stranger evil(town, Town::kLowEvil);
  const NcclTalk lies[] = {{1, NcclEnd{}},
                           {1, NcclRequest{1, 100, data_of(4, kCount)}},
                           {1, NcclGrant{1, {}}},
                           {1, NcclDecline{1}}};
  for (const NcclTalk& lie : lies)
    town.tell("Evil", "a", lie);
  evil.call("a");
  town.go_on();
  for (const NcclTalk& lie : lies)
    town.tell("Evil", "a", lie);
  town.go_on();
  CHECK(town["a"].edge("Evil").has_nccl);
  CHECK(town.said_to_evil.empty());
}

TEST_CASE("a higher name that calls is not answered by a communicator") {
  Town town(1, Town::kByNccl);
  town.tell(Town::kEvil, "a", {kEdge, NcclConnect{{}, NcclWorld::kVersion}});
  town.go_on();
  CHECK(town.nccl.standing() == 0);
  REQUIRE(town.said_to_evil.size() == 1);
  CHECK(town.said_to_evil[0].what.edge == kEdge);
  CHECK(std::get<NcclEnd>(town.said_to_evil[0].what.what).reason == NcclEnd::Reason::out_of_place);
}

TEST_CASE("whatever a node says, others exchange, and all memory comes back when its link ends") {
  uint64_t connected = 0, by_nccl = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    Town town(seed, Town::kByNccl);
    meet(town);
    const std::string name = seed % 2 == 0 ? Town::kEvil : Town::kLowEvil;
    const uint32_t rank = seed % 2 == 0 ? 3 : 4;
    test::MaliciousMember liar(seed, name, {"a", "b"});
    {
      Stranger evil(town, name);
      if (seed % 2 == 1 && seed % 3 != 0) evil.call("a");
      for (uint64_t k = 1; k <= 12; ++k) {
        town["a"].send(rank, 2, k);
        town.go_on(0.01);
        if (k == 1 && seed % 3 != 0) {
          evil.connect();
          town.go_on(1);
          connected += town["a"].edge(name).has_nccl;
          town["a"].send(rank, 2, k);
          town.go_on(0.01);
        }
        for (const Town::Said& said : town.said_to_evil)
          liar.hear(said.what);
        town.tell(name, "a", liar.nccl_talk());
        check_others(town, k);
        town["a"].came.clear();
      }
      by_nccl += town["a"].edge("b").sent_by_nccl;
    }
    town.cut("a", name);
    town.go_on();
    check_nothing_left(town);
  }
  CHECK(connected > 100);
  CHECK(by_nccl > 1000);
}
