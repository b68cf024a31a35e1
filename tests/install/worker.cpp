// A stranger's maker of workers: the actors, through the public header.
#include <grapevine/actors.hpp>

#include <atomic>
#include <cstdio>

using namespace grapevine;

int main() {
  Settings settings;
  settings.clock = Clock::simulated;
  settings.ranks = 4;
  settings.gradients = 400;
  settings.objective.objective = "quadratic";
  RunHooks hooks;
  std::atomic<int> workers{0};
  hooks.make_worker = [&](caf::actor_system& system, WorkerDependencies deps) {
    ++workers;
    return spawn_worker(system, std::move(deps));
  };
  const auto result = run(settings, std::move(hooks));
  if (!result || workers != 4) return 1;
  std::printf("workers of the stranger's making took %lu steps\n", result->outcome.gradients);
}
