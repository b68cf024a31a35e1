// The wall clock's scheduler: no message and no timer is lost, whoever serves, and it ends.
//
// Without helpers (scheduler.max-threads = 0) nothing runs but what the test's own visitor serves,
// so that what it does is the same every time.
#include <atomic>
#include <future>
#include <numeric>
#include <thread>

#include "actors/clocks/wall_scheduler.hpp"
#include "actors/compute/core_share.hpp"
#include "actors/run/spawn_run.hpp"
#include "tests/catch.hpp"
#include "tests/deadline.hpp"
#include "tests/eventually.hpp"

using namespace grapevine;
using std::chrono::microseconds;
using test::awaited;
using Visitor = WallScheduler::Visitor;

namespace {

struct Config : caf::actor_system_config {
  explicit Config(size_t helpers) {
    load<WallScheduler>();
    set("scheduler.max-threads", helpers);
  }
};

/// Hands every number it gets to a function.
caf::actor spawn_listener(caf::actor_system& system, std::function<void(int)> heard) {
  return system.spawn(
      [](caf::event_based_actor*, const std::function<void(int)>& heard) -> caf::behavior {
        return {[heard](int k) { heard(k); }};
      },
      std::move(heard));
}

/// Sends what it gets to the other for ever, with the clock's help every other time.
caf::actor spawn_restless(caf::actor_system& system, std::shared_ptr<std::atomic<int>> turns) {
  return system.spawn(
      [](caf::event_based_actor* self,
         const std::shared_ptr<std::atomic<int>>& turns) -> caf::behavior {
        return {[self, turns](int k) {
          ++*turns;
          if (k % 2 == 0) return self->send(self, k + 1);
          self->delayed_send(self, microseconds(10), k + 1);
        }};
      },
      std::move(turns));
}

void send_at(caf::actor_system& system, caf::actor_clock::time_point at, const caf::actor& to,
             int k) {
  system.clock().schedule_message(
      at, caf::actor_cast<caf::strong_actor_ptr>(to),
      caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, k));
}

}  // namespace

TEST_CASE(
    "a thread that waits for its core says so, unless its work is short; alone it unsays it") {
  CoreShare share;
  const auto work = [&](double cpu_s, double part) {
    for (double wall_s = 0; wall_s < 0.2; wall_s += cpu_s / part)
      share.add(cpu_s / part, cpu_s);
    return share.contended();
  };
  CHECK_FALSE(share.contended());
  CHECK_FALSE(work(2e-3, 1));
  CHECK(work(2e-3, 0.5));
  CHECK(work(2e-3, 0.9));  // neither alone nor late: as before
  CHECK_FALSE(work(2e-3, 0.99));
  CHECK_FALSE(work(2e-3, 0.9));
  CHECK_FALSE(work(1e-5, 0.5));  // waking another thread would take longer
}

TEST_CASE("timers fire by their times, and in the order of setting when the times are equal") {
  Config config(0);
  caf::actor_system system{config};
  std::vector<int> heard;
  {
    Visitor visitor(system);
    const caf::actor listener = spawn_listener(system, [&](int k) { heard.push_back(k); });
    const auto t0 = system.clock().now() - std::chrono::seconds(1);
    send_at(system, t0 + microseconds(30), listener, 20);
    send_at(system, t0 + microseconds(10), listener, 1);
    for (int k = 2; k < 20; ++k)
      send_at(system, t0 + microseconds(20), listener, k);
    send_at(system, t0 + std::chrono::hours(1), listener, 21);  // not due
    visitor.serve();
    std::vector<int> in_order(20);
    std::iota(in_order.begin(), in_order.end(), 1);
    CHECK(heard == in_order);
    caf::anon_send_exit(listener, caf::exit_reason::kill);
    visitor.serve();
  }
}

TEST_CASE(
    "a visitor runs what its message makes ready, anonymous messages included, before it "
    "goes on") {
  Config config(0);
  caf::actor_system system{config};
  std::vector<std::thread::id> where;
  {
    Visitor visitor(system);
    const caf::actor last =
        spawn_listener(system, [&](int) { where.push_back(std::this_thread::get_id()); });
    const caf::actor first = spawn_listener(system, [&](int k) { caf::anon_send(last, k); });
    visitor.serve();  // both begin
    visitor.deliver(caf::actor_cast<caf::strong_actor_ptr>(first),
                    caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, 7));
    CHECK(where == std::vector<std::thread::id>{std::this_thread::get_id()});
    caf::anon_send_exit(first, caf::exit_reason::kill);
    caf::anon_send_exit(last, caf::exit_reason::kill);
    visitor.serve();
  }
}

TEST_CASE("a chain of messages without end does not keep a visitor") {
  Config config(0);
  caf::actor_system system{config};
  int turns = 0;
  {
    Visitor visitor(system);
    caf::actor echo;
    echo = spawn_listener(system, [&](int k) {
      ++turns;
      caf::anon_send(echo, k);
    });
    caf::anon_send(echo, 1);
    visitor.serve();
    const int before = turns;
    CHECK(before > 0);
    visitor.serve();  // and it was not forgotten
    CHECK(turns > before);
    caf::anon_send_exit(echo, caf::exit_reason::kill);
    visitor.serve();
    echo = nullptr;
  }
}

TEST_CASE("while every visitor computes, the helpers fire timers and take messages all the same") {
  const size_t helpers = GENERATE(1, 3);
  Config config(helpers);
  caf::actor_system system{config};
  {
    Visitor visitor(system);  // computes, and never comes by
    std::promise<void> timer, message;
    const caf::actor listener =
        spawn_listener(system, [&](int k) { (k == 1 ? timer : message).set_value(); });
    send_at(system, system.clock().now() + microseconds(100), listener, 1);
    awaited(timer.get_future(), "timer");
    caf::anon_send(listener, 2);
    awaited(message.get_future(), "message");
    caf::anon_send_exit(listener, caf::exit_reason::kill);
  }
  SUCCEED("both arrived");
}

TEST_CASE("while an actor is in the middle of something long others are served, on any machine") {
  const bool by_one_actor = GENERATE(false, true);  // or by two threads
  RunSystemConfig config(Clock::wall);
  caf::actor_system system{config};
  std::promise<void> served, ended;
  const caf::actor other = spawn_listener(system, [&](int) { served.set_value(); });
  const caf::actor busy = spawn_listener(system, [&](int) {
    awaited(served.get_future(), "actor served beside a busy one");
    ended.set_value();
  });
  const auto send_both = [&] {
    caf::anon_send(busy, 1);
    caf::anon_send(other, 2);
  };
  const caf::actor third = spawn_listener(system, [&](int) { send_both(); });
  if (by_one_actor)
    caf::anon_send(third, 0);
  else
    send_both();
  awaited(ended.get_future(), "end of the busy actor");
  for (const caf::actor& actor : {other, busy, third})
    caf::anon_send_exit(actor, caf::exit_reason::kill);
  SUCCEED("it ends");
}

TEST_CASE("no message from any thread and no timer is lost, while visitors come and go") {
  constexpr int kThreads = 4, kActors = 8, kMessages = 2000;
  const size_t helpers = GENERATE(1, 3);
  Config config(helpers);
  caf::actor_system system{config};
  std::vector<std::atomic<int>> heard(kActors);
  std::atomic<int> sum = 0;
  std::promise<void> all;
  std::vector<caf::actor> actors;
  for (int a = 0; a < kActors; ++a) {
    actors.push_back(spawn_listener(system, [&, a](int) {
      ++heard[static_cast<size_t>(a)];
      if (++sum == 2 * kThreads * kMessages) all.set_value();
    }));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Visitor visitor(system);
      for (int k = 0; k < kMessages; ++k) {
        const caf::actor& to = actors[static_cast<size_t>((t + k) % kActors)];
        caf::anon_send(to, k);
        send_at(system, system.clock().now() + microseconds(k % 50), to, k);
        if (k % 3 == 0) visitor.serve();
        visitor.set_computing(k % 5 != 0);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  awaited(all.get_future(), "last of all messages and timers");
  for (const std::atomic<int>& n : heard)
    CHECK(n == 2 * kThreads * kMessages / kActors);
  for (const caf::actor& actor : actors)
    caf::anon_send_exit(actor, caf::exit_reason::kill);
}

TEST_CASE("idle and request time-outs arrive, and a cancelled idle time-out does not") {
  Config config(1);
  caf::actor_system system{config};
  std::promise<int> heard;
  std::promise<caf::error> refused;
  std::atomic<bool> came_though_cancelled = false;
  system.spawn(
      [](caf::event_based_actor* self, std::promise<int>* heard,
         std::atomic<bool>* came) -> caf::behavior {
        self->send(self, 1);  // ends the long wait, and with it its time-out
        return {[self, heard](int) {
                  self->become(caf::after(std::chrono::milliseconds(1)) >> [self, heard] {
                    heard->set_value(2);
                    self->quit();
                  });
                },
                caf::after(std::chrono::microseconds(1)) >> [came] { *came = true; }};
      },
      &heard, &came_though_cancelled);
  const caf::actor mute = system.spawn(
      [](caf::event_based_actor* self, int) -> caf::behavior {
        return {[self](int) { return self->make_response_promise(); }};
      },
      0);
  system.spawn(
      [](caf::event_based_actor* self, const caf::actor& mute, std::promise<caf::error>* refused) {
        self->request(mute, std::chrono::milliseconds(1), 1)
            .then([](int) {}, [refused](const caf::error& e) { refused->set_value(e); });
      },
      mute, &refused);
  CHECK(awaited(heard.get_future(), "idle time-out") == 2);
  CHECK(awaited(refused.get_future(), "time-out of a request") == caf::sec::request_timeout);
  CHECK_FALSE(came_though_cancelled);
  caf::anon_send_exit(mute, caf::exit_reason::kill);
}

TEST_CASE("a system ends while its actors go on sending and setting timers") {
  for (const size_t helpers : {size_t{0}, size_t{1}, size_t{3}}) {
    const auto turns = std::make_shared<std::atomic<int>>(0);
    const auto live_and_end = [&] {
      Config config(helpers);
      caf::actor_system system{config};
      system.await_actors_before_shutdown(false);
      for (int k = 0; k < 8; ++k)
        caf::anon_send(spawn_restless(system, turns), k);
      Visitor visitor(system);
      return eventually([&] {
        visitor.serve();
        return *turns >= 1000;
      });
    };
    CHECK(awaited(std::async(std::launch::async, live_and_end), "end of a system"));
  }
}

TEST_CASE("runs on the wall clock make every gradient and end, however short") {
  Settings s;
  s.clock = Clock::wall;
  s.topology = "ring";
  s.ranks = 6;
  s.threads = 2;
  s.gradients = 600;
  s.sample_s = 0;
  s.objective.objective = "diagonal";
  s.objective.dim = 64;
  s.objective.mu = 0.2;
  s.lr = {0.01, Schedule::constant, 0};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    s.seed = seed;
    auto objective = make_objective(s);
    REQUIRE(objective);
    const RunResult r = *run(s, *objective, {});
    CHECK(!r.outcome.failure);
    CHECK(r.outcome.gradients == 600);
    CHECK(r.outcome.quiet);
  }
}
