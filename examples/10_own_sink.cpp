// Your own sink: it receives the samples of a run, and stops the run when they are good enough.
//
// Samples come at a period of the run's clock. A sink may print them, keep them, or send them to a
// monitor. One thread at a time calls it. This one keeps the samples and, once the ranks agree to
// 1e-3, asks for a stop: the run finishes open exchanges and returns as at its normal end. If a
// sink throws, the run ends too, and run() returns the text of the exception.
//
// To build and run: ninja -C build/release 10_own_sink && build/release/bin/10_own_sink
// It prints:
//
//   epoch 1: ring of 16 ranks
//   at  4 s: 0 gradients, distance 1.10
//   at  8 s: 0 gradients, distance 0.24
//   at 12 s: 0 gradients, distance 0.03
//   at 16 s: 0 gradients, distance 0.00
//   at 20 s: 0 gradients, distance 0.00
//   stopped after 20 s of 1000
//   a sink that throws: the sink's on_sample failed: disk full
#include <atomic>
#include <stdexcept>

#include "examples/example.hpp"

using namespace grapevine;

int main() {
  Settings settings;
  settings.clock = Clock::simulated;
  settings.objective.objective = "consensus";
  settings.ranks = 16;
  settings.gradients = 0;
  settings.until_s = 1000;
  settings.sample_s = 4;

  std::atomic<int> stop{0};
  RunHooks hooks;
  hooks.interrupts = &stop;
  hooks.sink.on_epoch = [](const EpochInfo& e) {
    std::printf("epoch %lu: %s of %d ranks\n", e.epoch, e.topology.c_str(), e.ranks);
  };
  hooks.sink.on_sample = [&](const RunSample& s) {
    std::printf("at %2.0f s: %lu gradients, distance %.2f\n", s.at_s, s.gradients,
                s.consensus_distance);
    if (s.consensus_distance < 1e-3) stop = 1;
  };
  const Outcome outcome = example::or_exit(run(settings, hooks)).outcome;
  std::printf("stopped after %.0f s of %.0f\n", outcome.seconds, settings.until_s);

  hooks = {};
  hooks.sink.on_sample = [](const RunSample&) { throw std::runtime_error("disk full"); };
  std::printf("a sink that throws: %s\n", run(settings, hooks).error().message.c_str());
}
