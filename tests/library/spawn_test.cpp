// A run in the user's own actor system, through <grapevine/actors.hpp>: its one handle, its
// listeners, and its ends.
#include <grapevine/actors.hpp>

#include <stdexcept>

#include "tests/catch.hpp"
#include "tests/deadline.hpp"
#include "tests/eventually.hpp"
#include "tests/library/bowl.hpp"

using namespace grapevine;
using test::awaited;
using test::Bowl;
using test::short_run;

namespace {

struct Heard {
  std::atomic<int> samples{0}, epochs{0}, outcomes{0};
  std::promise<Outcome> ended;
};

caf::behavior listen(caf::event_based_actor*, std::shared_ptr<Heard> heard) {
  return {
      [=](const RunSample&) { ++heard->samples; },
      [=](const EpochInfo&) { ++heard->epochs; },
      [=](const std::string&) {},
      [=](const Alarm&) {},
      [=](const Outcome& outcome) {
        if (++heard->outcomes == 1) heard->ended.set_value(outcome);
      },
  };
}

/// A run on the wall clock in a system of its own.
struct Spawned {
  explicit Spawned(Settings settings = endless(), RunHooks hooks = {},
                   std::shared_ptr<Objective> objective = std::make_shared<Bowl>()) {
    auto spawned = spawn_run(system, settings, std::move(objective), std::move(hooks));
    REQUIRE(spawned);
    run = *spawned;
    caf::anon_send(run, Subscribe{system.spawn(listen, heard)});
  }

  static Settings endless() {
    Settings settings = short_run(Clock::wall);
    settings.gradients = uint64_t{1} << 40;
    return settings;
  }

  Spawned& begin() {
    caf::anon_send(run, Start{});
    return *this;
  }
  Outcome outcome() { return awaited(heard->ended.get_future(), "outcome"); }
  std::string failure() {
    const Outcome ended = outcome();
    return ended.failure ? ended.failure->message : "";
  }

  /// The answer, or the text of the error.
  template <class Request>
  std::string ask(const Request& request) {
    const caf::scoped_actor self{system};
    std::string answer;
    self->request(run, test::kDeadline, request)
        .receive([&](const std::string& line) { answer = line; },
                 [&](const caf::error& e) { answer = "error: " + system.render(e); });
    return answer;
  }
  size_t workers_reported() {
    const caf::scoped_actor self{system};
    size_t workers = 0;
    self->request(run, test::kDeadline, Report{})
        .receive([&](const RanksReport& report) { workers = report.workers.size(); },
                 [](const caf::error&) {});
    return workers;
  }

  RunSystemConfig config{Clock::wall};
  caf::actor_system system{config};
  std::shared_ptr<Heard> heard = std::make_shared<Heard>();
  RunActor run;
};

using Catch::Contains;

}  // namespace

TEST_CASE("settings that run refuses are refused by spawn_run, in the same words") {
  const std::vector<std::function<void(Settings&)>> wrong = {
      [](Settings& s) { s.rate = -1; },
      [](Settings& s) { s.lr.peak = -0.1; },
      [](Settings& s) { s.method = "nope"; },
      [](Settings& s) { s.topology = ""; },
      [](Settings& s) { s.ranks = 0; },
      [](Settings& s) { s.ranks = -4; },
      [](Settings& s) { s.local_ranks = 2; },
      [](Settings& s) { s.device = "abacus"; },
      [](Settings& s) { s.inner_steps = 0; },
      [](Settings& s) { s.method = "relaysgd"; },  // on a ring
      [](Settings& s) {
        s.method = "relaysgd";
        s.topology = "chain";
        s.plan.reconfigurations.push_back({.at = 1, .topology = "ring"});
      },
  };
  for (const auto& change : wrong) {
    RunSystemConfig config(Clock::wall);
    caf::actor_system system{config};
    Settings settings = short_run(Clock::wall);
    change(settings);
    const auto ran = run(settings, std::make_shared<Bowl>());
    const auto spawned = spawn_run(system, settings, std::make_shared<Bowl>());
    REQUIRE_FALSE(ran);
    REQUIRE_FALSE(spawned);
    CHECK(spawned.error().exit_status() == 2);
    CHECK(spawned.error().message == ran.error().message);
  }
}

TEST_CASE("spawn_run refuses no objective, and a system with another clock") {
  RunSystemConfig wall(Clock::wall), simulated(Clock::simulated);
  caf::actor_system real{wall}, modelled{simulated};
  const auto bowl = std::make_shared<Bowl>();
  CHECK_THAT(spawn_run(real, short_run(Clock::wall), nullptr).error().message,
             Contains("no objective"));
  CHECK_THAT(spawn_run(real, short_run(Clock::simulated), bowl).error().message,
             Contains("RunSystemConfig"));
  CHECK_THAT(spawn_run(modelled, short_run(Clock::wall), bowl).error().message,
             Contains("RunSystemConfig"));
  CHECK_THAT(run_virtual(real, [] { return true; }).error().message, Contains("RunSystemConfig"));
}

TEST_CASE("listeners hear a run from its first epoch to its outcome, also in another system") {
  caf::actor_system_config plain;
  std::promise<void> died;  // outlives the actors
  caf::actor_system elsewhere{plain};
  Spawned spawned;
  const auto far = std::make_shared<Heard>(), late = std::make_shared<Heard>();
  caf::anon_send(spawned.run, Subscribe{elsewhere.spawn(listen, far)});
  caf::anon_send(spawned.run, Subscribe{});  // no listener
  const auto dies = [](caf::event_based_actor* self, std::promise<void>* promise) -> caf::behavior {
    self->set_default_handler(caf::drop);
    self->attach_functor([promise] { promise->set_value(); });
    return {[=](const EpochInfo&) { self->quit(); }};
  };
  caf::anon_send(spawned.run, Subscribe{spawned.system.spawn(dies, &died)});
  CHECK_THAT(spawned.ask(Reconfigure{"complete"}), Contains("has not begun"));
  spawned.begin();
  REQUIRE(eventually([&] { return far->epochs > 0 && spawned.heard->epochs > 0; }, kBusyMachine));
  awaited(died.get_future(), "end of the listener");
  caf::anon_send(spawned.run, Finish{});
  const uint64_t gradients = spawned.outcome().gradients;
  CHECK(awaited(far->ended.get_future(), "outcome").gradients == gradients);
  caf::anon_send(spawned.run, Subscribe{spawned.system.spawn(listen, late)});
  CHECK(awaited(late->ended.get_future(), "outcome").gradients == gradients);
  CHECK(spawned.heard->outcomes == 1);
  CHECK_THAT(spawned.ask(KillRank{1}), Contains("the run is over"));
  CHECK_THAT(spawned.ask(Reconfigure{"ring"}), Contains("the run is over"));
  CHECK(spawned.workers_reported() == 4u);
}

TEST_CASE("a run answers requests, and says why it cannot serve one") {
  Settings settings = Spawned::endless();
  settings.method = "relaysgd";
  settings.topology = "chain";
  Spawned spawned(settings);
  CHECK(spawned.workers_reported() == 0u);
  spawned.begin();
  CHECK_THAT(spawned.ask(Reconfigure{"nope"}), Contains("accepted"));
  CHECK_THAT(spawned.ask(Reconfigure{"ring"}), Contains("not a tree"));
  CHECK_THAT(spawned.ask(Reconfigure{"star"}), Contains("star of 4 ranks"));
  CHECK_THAT(spawned.ask(KillRank{99}), Contains("rank is 99, accepted: 0 to 3"));
  CHECK_THAT(spawned.ask(KillRank{-1}), Contains("rank is -1, accepted: 0 to 3"));
  CHECK_THAT(spawned.ask(RestartRank{99}), Contains("rank is 99, accepted: 0 to 3"));
  CHECK(spawned.ask(KillRank{1}) == "rank 1 is gone");
  CHECK_THAT(spawned.ask(KillRank{1}), Contains("rank 1 is gone already"));
  CHECK(spawned.ask(RestartRank{1}) == "rank 1 returns with the state of a neighbour");
  CHECK(spawned.ask(RestartRank{2}) == "rank 2 returns with the state of a neighbour");
  CHECK(spawned.workers_reported() >= 2u);
  caf::anon_send(spawned.run, Finish{});
  caf::anon_send(spawned.run, Finish{});
  CHECK_THAT(spawned.ask(KillRank{3}), Contains("the run is"));  // ending, or over
  CHECK(spawned.failure().empty());
}

TEST_CASE("ranks of a method with rounds return, again and again") {
  for (const char* method : {"d_psgd", "relaysgd"}) {
    Settings settings = Spawned::endless();
    settings.method = method;
    settings.topology = "chain";
    Spawned spawned(settings);
    spawned.begin();
    int returned = 0;
    for (int k = 0; returned < 100; ++k) {  // between them the ranks compute
      returned += spawned.ask(RestartRank{k % 4}).starts_with("rank");
      if (k % 3 == 0) spawned.ask(Reconfigure{k % 2 == 0 ? "star" : "chain"});
    }
    caf::anon_send(spawned.run, Finish{});
    CHECK(spawned.failure().empty());
  }
}

TEST_CASE("a rank that is killed while it returns is gone") {
  Spawned spawned;
  spawned.begin();
  CHECK_THAT(spawned.ask(Reconfigure{"complete"}), Contains("complete"));  // the ranks have begun
  caf::anon_send(spawned.run, RestartRank{1});
  CHECK(spawned.ask(KillRank{1}) == "rank 1 is gone");
  CHECK_THAT(spawned.ask(KillRank{1}), Contains("rank 1 is gone already"));
  caf::anon_send(spawned.run, Finish{});
  CHECK(spawned.outcome().parameters.size() == 3u);
}

TEST_CASE("the only rank of a run returns with its own state") {
  Settings settings = Spawned::endless();
  settings.ranks = 1;
  settings.topology = "complete";
  Spawned spawned(settings);
  spawned.begin();
  CHECK_THAT(spawned.ask(RestartRank{0}), Contains("returns"));
  caf::anon_send(spawned.run, Finish{});
  spawned.outcome();
}

TEST_CASE("a spawned run ends by a hook, by its time, and before it begins") {
  std::atomic<int> stop{0};
  RunHooks hooks;
  hooks.interrupts = &stop;
  Spawned interrupted(Spawned::endless(), hooks);
  stop = 1;
  CHECK(interrupted.begin().failure().empty());
  Settings short_of_time = Spawned::endless();
  short_of_time.until_s = 0.1;
  CHECK(Spawned(short_of_time).begin().failure().empty());
  Spawned early;
  caf::anon_send(early.run, Finish{});
  CHECK(early.failure() == "the run was ended before it began");
}

TEST_CASE("a run in the user's system ends with its handle, and with an actor linked to it") {
  { Spawned().begin(); }  // the system's destructor returns
  Spawned owned;
  const auto linked = [](caf::event_based_actor* self, const RunActor& run) -> caf::behavior {
    self->link_to(run);
    return {[=](Finish) { self->quit(); }};
  };
  const caf::actor owner = owned.system.spawn(linked, owned.run);
  owned.begin();
  caf::anon_send(owner, Finish{});
  CHECK_THAT(owned.failure(), Contains("the actor of the run has ended before the run"));
  CHECK_THAT(owned.ask(KillRank{0}), Contains("request_receiver_down"));
}

TEST_CASE("what the user's functions throw ends a spawned run, with its text") {
  const auto throwing = std::make_shared<Bowl>();
  throwing->on_gradient = [](int rank, uint64_t index) {
    if (rank == 1 && index >= 5) throw std::runtime_error("no slope");
  };
  CHECK_THAT(Spawned(Spawned::endless(), {}, throwing).begin().failure(), Contains("no slope"));
  RunHooks hooks;
  hooks.sink.on_sample = [](const RunSample&) { throw std::runtime_error("disk full"); };
  CHECK(Spawned(Spawned::endless(), hooks).begin().failure() ==
        "the sink's on_sample failed: disk full");
  hooks = {};
  hooks.make_worker = [](caf::actor_system&, WorkerDependencies) -> SpawnedWorker {
    throw std::runtime_error("no hands left");
  };
  CHECK_THAT(Spawned(Spawned::endless(), hooks).begin().failure(), Contains("no hands left"));
}

TEST_CASE("a run that ends while it writes its last checkpoint writes all of it") {
  std::atomic<int> stop{0};
  RunHooks hooks;
  hooks.interrupts = &stop;
  bool ends = false;  // the part that is being written
  CheckpointOrders::Done written;
  hooks.checkpoints.write = [&](const CheckpointPart& part, CheckpointOrders::Done done) {
    ends = part.rank == nullptr;
    written = std::move(done);
  };
  const auto bowl = std::make_shared<Bowl>();
  int gradients = 0, samples_after = 0;
  bowl->on_gradient = [&](int, uint64_t) {
    if (++gradients == 20) stop = 1;
  };
  hooks.sink.on_sample = [&](const RunSample&) { samples_after += gradients == 100; };
  Settings settings = short_run(Clock::simulated);
  settings.gradients = 100;
  RunSystemConfig config(Clock::simulated);
  caf::actor_system system{config};
  auto run = spawn_run(system, settings, bowl, hooks);
  REQUIRE(run);
  const auto heard = std::make_shared<Heard>();
  caf::anon_send(*run, Subscribe{system.spawn(listen, heard)});
  caf::anon_send(*run, Start{});
  REQUIRE(run_virtual(system, [&] { return samples_after == 4; }));
  while (written) {
    std::exchange(written, nullptr)(true, "written");
    REQUIRE(run_virtual(system, [&] { return written || heard->outcomes == 1; }));
  }
  CHECK(ends);
  CHECK(heard->outcomes == 1);
  const auto weak = caf::actor_cast<caf::weak_actor_ptr>(*run);
  *run = nullptr;
  CHECK_FALSE(caf::actor_cast<caf::strong_actor_ptr>(weak));  // no timer keeps it
  REQUIRE(stop_virtual(system, *run));
}

TEST_CASE("two runs share an actor system") {
  Spawned first(short_run(Clock::wall));
  const auto second = spawn_run(first.system, short_run(Clock::wall), std::make_shared<Bowl>());
  REQUIRE(second);
  const auto heard = std::make_shared<Heard>();
  caf::anon_send(*second, Subscribe{first.system.spawn(listen, heard)});
  caf::anon_send(*second, Start{});
  CHECK(first.begin().failure().empty());
  CHECK_FALSE(awaited(heard->ended.get_future(), "outcome").failure);
}
