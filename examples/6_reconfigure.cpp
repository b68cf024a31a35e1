// Changing the graph during a run, by message, in your own actor system.
//
// spawn_run puts a run into any actor system, as one actor. An actor of this program listens to the
// run and requests another graph at 100 s and at 200 s. `Reconfigure` is a request; its answer
// describes the new epoch. There is no barrier and no pause: exchanges in progress finish with the
// old graph, and each rank takes its new neighbours when it learns of them. chi1 bounds the time
// that gossip needs on the graph; eta is the matching rate of attraction between x and x~.
//
// To build and run: ninja -C build/release 6_reconfigure && build/release/bin/6_reconfigure
// It prints:
//
//   epoch 1 from   0 s: ring, chi1 13.14, eta 0.2015
//   answer: epoch 2: exponential of 16 ranks, 56 edges
//   epoch 2 from 100 s: exponential, chi1 2.01, eta 0.3790
//   answer: epoch 3: ring of 16 ranks, 16 edges
//   epoch 3 from 200 s: ring, chi1 13.15, eta 0.2012
//   steps: 4800 of 4800, idle at most 0.0 %
//   exchanges begun and not ended: 0 of 2342
//   x + x~ summed over ranks: conserved
#include <grapevine/actors.hpp>

#include "examples/example.hpp"

using namespace grapevine;

// Requests two graphs, 100 s apart, and keeps the outcome.
caf::behavior operate(caf::event_based_actor* self, const RunActor& run,
                      std::shared_ptr<std::optional<Outcome>> ended) {
  self->set_default_handler(caf::drop);  // samples, lines and alarms
  const RunClock clock(self->system());
  for (const auto& [at_s, graph] : {std::pair{100.0, "exponential"}, std::pair{200.0, "ring"}})
    self->scheduled_send(caf::actor(self), clock.instant(at_s), Reconfigure{graph});
  return {
      [=](const Reconfigure& change) {
        self->request(run, caf::infinite, change).then([](const std::string& answer) {
          std::printf("answer: %s\n", answer.c_str());
        });
      },
      [](const EpochInfo& e) {
        std::printf("epoch %lu from %3.0f s: %s, chi1 %.2f, eta %.4f\n", e.epoch, e.at_s,
                    e.topology.c_str(), e.chi1, e.eta);
      },
      [=](const Outcome& outcome) { *ended = outcome; },
  };
}

int main() {
  Settings settings;
  settings.clock = Clock::simulated;
  settings.objective.objective = "quadratic";
  settings.ranks = 16;
  settings.topology = "ring";
  settings.gradients = 16 * 300;
  settings.link = {0.02, 0.5, 0.1, 0};  // latency, jitter, transfer
  const auto objective = example::or_exit(make_objective(settings));

  RunSystemConfig config(settings.clock);
  caf::actor_system system{config};
  RunActor run = example::or_exit(spawn_run(system, settings, objective));
  const auto outcome = std::make_shared<std::optional<Outcome>>();
  caf::anon_send(run, Subscribe{system.spawn(operate, run, outcome)});
  caf::anon_send(run, Start{});
  // With the wall clock: a wait.
  example::or_exit(run_virtual(system, [&] { return outcome->has_value(); }));
  example::or_exit(stop_virtual(system, run));

  uint64_t steps = 0;
  double idlest = 0;
  for (const WorkerReport& w : (*outcome)->workers) {
    steps += w.gradients;
    idlest = std::max(idlest, w.idle_s / w.alive_s);
  }
  const Counts& counts = (*outcome)->counts;
  std::printf("steps: %lu of %lu, idle at most %.1f %%\n", steps, settings.gradients, 100 * idlest);
  std::printf("exchanges begun and not ended: %lu of %lu\n",
              counts.opened - counts.applied + counts.broken_before + counts.broken_after,
              counts.opened / 2);
  std::printf("x + x~ summed over ranks: %s\n",
              (*outcome)->conserved_error < 1e-9 ? "conserved" : "changed");
}
