// Runs on the virtual clock whose ranks live on the adversary of tests/device.
#pragma once
#include "actors/rank/worker.hpp"
#include "actors/run/state_sizes.hpp"
#include "tests/device/run_device.hpp"
#include "tests/run/simulated_runs.hpp"

namespace grapevine::testing {

/// Lets the time of a late device pass with that of the run: an actor of the run's system, which
/// comes with the first worker. Work on the device takes up to a few tenths of a gradient then.
inline MakeWorker on_late(RunDevice& device, MakeWorker make = spawn_worker) {
  return [&device, make = std::move(make), begun = false](caf::actor_system& system,
                                                          WorkerDependencies deps) mutable {
    if (!std::exchange(begun, true)) {
      const RunClock clock = deps.clock;
      const auto tick = caf::actor_cast<caf::actor>(system.spawn(
          [&device](caf::event_based_actor* self, RunClock clock) -> caf::behavior {
            return {[&device, clock, self](Tick t) {
              constexpr double kTick_s = 0.01, kDevice_s = 0.05;  // of the device's for one of ours
              device.world().run_until(kDevice_s * clock.now());
              self->scheduled_send(self, clock.instant(clock.now() + kTick_s), t);
            }};
          },
          clock));
      caf::anon_send(tick, Tick{});
    }
    return make(system, std::move(deps));
  };
}

/// The run with all of its ranks on the device.
inline Result<RunResult> simulate_on(RunDevice& device, const Settings& s,
                                     std::shared_ptr<Objective> objective, RunHooks hooks = {}) {
  GV_CHECK(static_cast<bool>(check(s)));
  auto share = DeviceShare::make(device, device_sizes(s, *objective));
  if (!share) return share.error();
  (*share)->choose_by(
      [&](size_t n) { return device.world().random().below(static_cast<uint32_t>(n)); });
  hooks.device = std::move(*share);
  return run(s, std::move(objective), std::move(hooks));
}

inline Result<RunResult> simulate_on(RunDevice& device, Settings s, uint64_t seed,
                                     RunHooks hooks = {}) {
  s.seed = seed;
  auto objective = make_objective(s);
  GV_CHECK(static_cast<bool>(objective));
  return simulate_on(device, s, std::move(*objective), std::move(hooks));
}

}  // namespace grapevine::testing
