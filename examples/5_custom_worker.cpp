// Your own workers: one that is slow, one that fails. The other ranks are not affected.
//
// A worker is any actor that handles WorkerActor's messages; a node makes workers with MakeWorker.
// Here the worker of rank 3 takes 2 s longer for each gradient. The first worker of rank 7 quits
// with an error at gradient 100; the node replaces it, and the new one continues from there. The
// others compute a gradient per second, until 300 virtual seconds have passed.
//
// To build and run: ninja -C build/release 5_custom_worker && build/release/bin/5_custom_worker
// It prints:
//
//   the worker of rank 7 failed (system_error(runtime_error, ("out of ideas"))); another takes over
//   rank  3: 100 gradients
//   rank  7: 300 gradients
//   rank 15: 300 gradients
//   idle, worst rank: below 2 %
#include <grapevine/actors.hpp>

#include "examples/example.hpp"

using namespace grapevine;

class Thinker final : public WorkerActor::base {
 public:
  struct Character {
    double thinks_s = 0;               // in addition to each gradient
    std::optional<uint64_t> fails_at;  // the gradient at which it fails
  };

  Thinker(caf::actor_config& config, WorkerDependencies deps, Character character)
      : WorkerActor::base(config), deps_(std::move(deps)), character_(character) {}

 protected:
  behavior_type make_behavior() override {
    return {
        [this](Start) { send(deps_.state, Fetch{deps_.rank}); },  // the answer is Parameters
        [this](Parameters& p) {
          if (draining_) return;
          if (p.gradients == character_.fails_at)
            return quit(caf::make_error(caf::sec::runtime_error, "out of ideas"));
          began_s_ = deps_.clock.now();
          const auto self = caf::actor_cast<WorkerActor>(this);
          deps_.compute->submit({deps_.rank, p.gradients, std::move(p.x), 1, false, self});
        },
        [this](Computed& c) {
          computed_ = std::move(c);
          const double done_s = deps_.clock.now() + character_.thinks_s;
          scheduled_send(caf::actor_cast<WorkerActor>(this), deps_.clock.instant(done_s), Tick{});
        },
        [this](Tick) {
          busy_s_ += deps_.clock.now() - began_s_;
          gradients_ = computed_.index + 1;
          const double lr = deps_.settings->lr.peak;
          count_gradient(*deps_.counters, computed_.loss, lr);
          send(deps_.state, Gradient{deps_.rank, lr, std::move(computed_.g), !draining_});
        },
        [this](Report) {
          const double alive_s = deps_.clock.now();
          return WorkerReport{deps_.rank, gradients_, alive_s - busy_s_, alive_s};
        },
        [this](Order order) { draining_ = draining_ || order == Order::drain; },
    };
  }

 private:
  WorkerDependencies deps_;
  Character character_;
  Computed computed_;
  uint64_t gradients_ = 0;
  double began_s_ = 0, busy_s_ = 0;
  bool draining_ = false;
};

int main() {
  Settings settings;
  settings.clock = Clock::simulated;
  settings.objective.objective = "quadratic";
  settings.gradients = 0;  // only the time ends the run
  settings.until_s = 300.5;

  RunHooks hooks;
  hooks.make_worker = [failed = false](caf::actor_system& system, WorkerDependencies deps) mutable {
    Thinker::Character character;
    if (deps.rank == 3) character.thinks_s = 2;
    if (deps.rank == 7 && !std::exchange(failed, true)) character.fails_at = 100;
    const bool ours = character.thinks_s > 0 || character.fails_at;
    return ours ? system.spawn<Thinker>(std::move(deps), character)
                : spawn_worker(system, std::move(deps));
  };
  hooks.sink.on_event = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  const Outcome outcome = example::or_exit(run(settings, std::move(hooks))).outcome;

  double idlest = 0;
  for (const WorkerReport& w : outcome.workers) {
    if (w.rank == 3 || w.rank == 7 || w.rank == 15)
      std::printf("rank %2d: %3lu gradients\n", w.rank, w.gradients);
    if (w.rank != 7) idlest = std::max(idlest, w.idle_s / w.alive_s);
  }
  std::printf("idle, worst rank: %s\n", idlest < 0.02 ? "below 2 %" : "2 % or more");
}
