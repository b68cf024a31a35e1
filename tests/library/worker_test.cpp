// Workers of the library's users, through <grapevine/actors.hpp>.
#include <grapevine/actors.hpp>

#include <algorithm>
#include <atomic>
#include <future>
#include <limits>
#include <stdexcept>

#include "tests/catch.hpp"
#include "tests/deadline.hpp"
#include "tests/library/bowl.hpp"

using namespace grapevine;
using test::Bowl;
using test::short_run;

namespace {

// The gradient of a bowl, by a function of the test's own.
class Own final : public OwnWorker {
 public:
  explicit Own(std::function<double(uint64_t index)> work) : work_(std::move(work)) {}
  double gradient(uint64_t index, ConstVec x, Vec g) override {
    for (size_t k = 0; k < x.size; ++k)
      g.as<double>()[k] = x.as<double>()[k];
    return work_(index);
  }

 private:
  std::function<double(uint64_t index)> work_;
};

RunHooks with_own(std::function<double(int rank, uint64_t index)> work) {
  RunHooks hooks;
  hooks.make_worker = [work = std::move(work)](caf::actor_system& system, WorkerDependencies deps) {
    auto own = std::make_unique<Own>(
        [work, rank = deps.rank](uint64_t index) { return work(rank, index); });
    return spawn_own_worker(system, std::move(deps), std::move(own));
  };
  return hooks;
}

constexpr Clock kClocks[] = {Clock::simulated, Clock::wall};

}  // namespace

TEST_CASE("a worker that cannot be made ends the run, with what was thrown") {
  for (const Clock clock : {Clock::simulated, Clock::wall}) {
    RunHooks hooks;
    hooks.make_worker = [](caf::actor_system& system, WorkerDependencies deps) {
      if (deps.rank == 3) throw std::runtime_error("no hands left");
      return spawn_worker(system, std::move(deps));
    };
    const auto result = run(short_run(clock), std::make_shared<Bowl>(), hooks);
    REQUIRE_FALSE(result);
    CHECK(result.error().message == "the worker of rank 3 failed: no hands left");
  }
}

TEST_CASE("a worker of one function trains, and its steps are counted") {
  for (const Clock clock : kClocks) {
    for (const char* method : {"a2cid2", "d_psgd", "all_reduce"}) {
      Settings settings = short_run(clock);
      settings.method = method;
      const auto result =
          run(settings, std::make_shared<Bowl>(), with_own([](int, uint64_t) { return 1.0; }));
      REQUIRE(result);
      CHECK_FALSE(result->outcome.failure);
      CHECK(result->outcome.gradients >= 200u);
      for (const WorkerReport& worker : result->outcome.workers)
        CHECK(worker.loss == 1.0);
    }
  }
}

TEST_CASE("a worker whose function throws is replaced, five times, then its rank is gone") {
  for (const Clock clock : kClocks) {
    std::vector<std::string> lines;
    RunHooks hooks = with_own([](int rank, uint64_t) {
      if (rank == 2) throw std::runtime_error("no slope");
      return 1.0;
    });
    std::atomic<bool> is_gone{false};
    hooks.is_enough = &is_gone;
    hooks.sink.on_event = [&](const std::string& line) {
      lines.push_back(line);
      if (line == "rank 2 is gone") is_gone = true;
    };
    Settings settings = short_run(clock);
    settings.gradients = uint64_t{1} << 40;
    const auto result = run(settings, std::make_shared<Bowl>(), hooks);
    REQUIRE(result);
    const auto count = [&](const char* part) {
      return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
        return line.find(part) != std::string::npos;
      });
    };
    CHECK(count("no slope") == 5);
    CHECK(count("the worker of rank 2 failed too often") == 1);
    CHECK(result->outcome.workers.size() == 3u);
  }
}

TEST_CASE("a worker of one function whose loss is not a number ends the run") {
  for (const Clock clock : kClocks) {
    const auto result =
        run(short_run(clock), std::make_shared<Bowl>(), with_own([](int, uint64_t index) {
              return index < 5 ? 1.0 : std::numeric_limits<double>::quiet_NaN();
            }));
    REQUIRE(result);
    REQUIRE(result->outcome.failure);
    CHECK(result->outcome.failure->message.find("loss is nan") != std::string::npos);
  }
}

TEST_CASE("ranks do not wait for a worker that does not return, nor does the outcome") {
  std::promise<void> over;
  const std::shared_future<void> lasts = over.get_future().share();
  RunHooks hooks = with_own([lasts](int rank, uint64_t) {
    if (rank == 3) lasts.wait();
    return 1.0;
  });
  Settings settings = short_run(Clock::wall);
  settings.share = Share::pool;
  RunSystemConfig config(Clock::wall);
  caf::actor_system system{config};
  const auto spawned = spawn_run(system, settings, std::make_shared<Bowl>(), std::move(hooks));
  REQUIRE(spawned);
  std::promise<Outcome> ended;
  const auto listen = [](caf::event_based_actor* self,
                         std::promise<Outcome>* promise) -> caf::behavior {
    self->set_default_handler(caf::drop);
    return {[promise](const Outcome& outcome) { promise->set_value(outcome); }};
  };
  caf::anon_send(*spawned, Subscribe{system.spawn(listen, &ended)});
  caf::anon_send(*spawned, Start{});
  const Outcome outcome = test::awaited(ended.get_future(), "outcome");
  CHECK(outcome.gradients >= 200u);
  CHECK_FALSE(outcome.failure);
  over.set_value();
}
