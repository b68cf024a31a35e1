// Workers of the library's users, through <grapevine/actors.hpp>.
#include <grapevine/actors.hpp>

#include <stdexcept>

#include "tests/catch.hpp"
#include "tests/library/bowl.hpp"

using namespace grapevine;
using test::Bowl;
using test::short_run;

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
