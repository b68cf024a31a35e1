// Runs on the virtual clock whose ranks live on the adversary of tests/device.
#pragma once
#include "actors/run/state_sizes.hpp"
#include "actors/worker.hpp"
#include "tests/device/adversary.hpp"
#include "tests/run/simulated_runs.hpp"

namespace grapevine::testing {

/// The adversary as the device of a run. Prompt, it has done whatever is asked about, so that the
/// run has the events of one in the host's memory; all else happens in any order that the events
/// allow. Late, its time passes with that of the run: see on_late().
class RunDevice final : public Device {
 public:
  enum class Pace { prompt, late };

  explicit RunDevice(uint64_t seed, Pace pace = Pace::prompt)
      : world_(seed), device_(world_, "A"), pace_(pace) {}

  Fate query(Event e, Where w) override {
    Fate fate = told(device_.query(e, w));
    for (; pace_ == Pace::prompt && fate == Fate::later; fate = told(device_.query(e, w)))
      if (!world_.step()) return Fate::later;
    return fate;
  }
  Fate free(const Block& b, Where w) override { return told(device_.free(b, w)); }
  Fate drain() override { return told(device_.drain()); }
  Fate allocate(size_t bytes, Block::Kind kind, Block& out) override {
    return told(device_.allocate(bytes, kind, out));
  }
  Fate make_stream(bool urgent, Stream& out) override {
    return told(device_.make_stream(urgent, out));
  }
  Fate make_event(Event& out) override { return told(device_.make_event(out)); }
  Fate record(Event e, Stream s, Where w) override { return told(device_.record(e, s, w)); }
  Fate wait(Stream s, Event e, Where w) override { return told(device_.wait(s, e, w)); }
  Fate copy(Stream s, void* to, const void* from, size_t bytes, Where w) override {
    return told(device_.copy(s, to, from, bytes, w));
  }
  Fate launch(Stream s, std::span<const Access> accesses, Body body, Where w) override {
    return told(device_.launch(s, accesses, std::move(body), w));
  }
  void when(Event e, std::function<void(Fate)> then, Where w) override {
    device_.when(e, std::move(then), w);
  }
  void on_lost(std::function<void()> then) override { device_.on_lost(std::move(then)); }
  void give_up() override {
    device_.give_up();
    world_.run();
  }
  Fate share(const Block& b, int& descriptor) override { return device_.share(b, descriptor); }
  Fate open(int descriptor, size_t bytes, Block& out) override {
    return device_.open(descriptor, bytes, out);
  }
  void touch(const Access& a, Where w) override { device_.touch(a, w); }

  AdverseWorld& world() { return world_; }
  Adversary& adversary() { return device_; }

 private:
  /// Who waits for a lost device is told, as on a thread of the device.
  Fate told(Fate fate) {
    if (fate == Fate::lost) world_.run();
    return fate;
  }

  AdverseWorld world_;
  Adversary device_;
  const Pace pace_;
};

/// Lets the time of a late device pass with that of the run: an actor of the run's system, which
/// comes with the first worker. Work on the device takes up to a few tenths of a gradient then.
inline MakeWorker on_late(RunDevice& device, MakeWorker make = spawn_worker) {
  return [&device, make = std::move(make), begun = false](caf::actor_system& system,
                                                          WorkerDependencies deps) mutable {
    if (!std::exchange(begun, true)) {
      const RunClock clock = deps.clock;
      const auto tick = caf::actor_cast<caf::actor>(
          system.spawn([&device, clock](caf::event_based_actor* self) -> caf::behavior {
            return {[&device, clock, self](Tick t) {
              constexpr double kTick_s = 0.01, kDevice_s = 0.05;  // of the device's for one of ours
              device.world().run_until(kDevice_s * clock.now());
              self->scheduled_send(self, clock.instant(clock.now() + kTick_s), t);
            }};
          }));
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
