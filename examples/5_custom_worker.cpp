// Your own workers: one that is slow, one that fails. The other ranks are not affected.
//
// A worker of your own is a function that computes a gradient; the library does the rest. A node
// makes workers with MakeWorker. Here the worker of rank 3 takes 2 s longer for each gradient. The
// first worker of rank 7 throws at gradient 100; the node replaces it, and the new one continues
// from there. The others compute a gradient per second, until 300 virtual seconds have passed.
//
// To build and run: ninja -C build/release 5_custom_worker && build/release/bin/5_custom_worker
// It prints:
//
//   the worker of rank 7 failed (system_error(runtime_error, ("out of ideas"))); it is replaced
//   rank  3: 100 gradients
//   rank  7: 300 gradients
//   rank 15: 300 gradients
//   idle, worst rank: below 2 %
#include <grapevine/actors.hpp>

#include <optional>
#include <stdexcept>

#include "examples/example.hpp"

using namespace grapevine;

class Thinker final : public OwnWorker {
 public:
  struct Character {
    double thinks_s = 0;               // in addition to each gradient
    std::optional<uint64_t> fails_at;  // the gradient at which it fails
  };

  Thinker(int rank, Character character, std::shared_ptr<Objective> objective)
      : rank_(rank), character_(character), objective_(std::move(objective)) {}

  double gradient(uint64_t index, ConstVec x, Vec g) override {
    if (index == character_.fails_at) throw std::runtime_error("out of ideas");
    return objective_->gradient(0, rank_, index, x, g);
  }
  double seconds(uint64_t) override { return 1 + character_.thinks_s; }  // of the virtual clock

 private:
  const int rank_;
  const Character character_;
  const std::shared_ptr<Objective> objective_;
};

int main() {
  Settings settings;
  settings.clock = Clock::simulated;
  settings.objective.objective = "quadratic";
  settings.gradients = 0;  // only the time ends the run
  settings.until_s = 300.5;

  const auto objective = example::or_exit(make_objective(settings));

  RunHooks hooks;
  hooks.make_worker = [objective, failed = false](caf::actor_system& system,
                                                  WorkerDependencies deps) mutable {
    Thinker::Character character;
    if (deps.rank == 3) character.thinks_s = 2;
    if (deps.rank == 7 && !std::exchange(failed, true)) character.fails_at = 100;
    const bool ours = character.thinks_s > 0 || character.fails_at;
    if (!ours) return spawn_worker(system, std::move(deps));
    auto own = std::make_unique<Thinker>(deps.rank, character, objective);
    return spawn_own_worker(system, std::move(deps), std::move(own));
  };
  hooks.sink.on_event = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  const Outcome outcome = example::or_exit(run(settings, objective, std::move(hooks))).outcome;

  double idlest = 0;
  for (const WorkerReport& w : outcome.workers) {
    if (w.rank == 3 || w.rank == 7 || w.rank == 15)
      std::printf("rank %2d: %3lu gradients\n", w.rank, w.gradients);
    if (w.rank != 7) idlest = std::max(idlest, w.idle_s / w.alive_s);
  }
  std::printf("idle, worst rank: %s\n", idlest < 0.02 ? "below 2 %" : "2 % or more");
}
