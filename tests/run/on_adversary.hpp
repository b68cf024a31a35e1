// Runs on the virtual clock whose ranks live on the adversary of tests/device.
#pragma once
#include "actors/run/state_sizes.hpp"
#include "tests/device/adversary.hpp"
#include "tests/run/simulated_runs.hpp"

namespace grapevine::testing {

/// A device that has done whatever is asked about, so that a run on it has the events of a run in
/// the host's memory. All else happens in any order that the events allow.
class Prompt final : public Device {
 public:
  explicit Prompt(uint64_t seed) : world_(seed), device_(world_, "A") {}

  Fate query(Event e, Where w) override {
    Fate fate = device_.query(e, w);
    for (; fate == Fate::later; fate = device_.query(e, w))
      GV_CHECK(world_.step());
    return fate;
  }
  Fate free(const Block& b, Where w) override {
    world_.run();
    return device_.free(b, w);
  }
  Fate allocate(size_t bytes, Block::Kind kind, Block& out) override {
    return device_.allocate(bytes, kind, out);
  }
  Fate make_stream(bool urgent, Stream& out) override { return device_.make_stream(urgent, out); }
  Fate make_event(Event& out) override { return device_.make_event(out); }
  Fate record(Event e, Stream s, Where w) override { return device_.record(e, s, w); }
  Fate wait(Stream s, Event e, Where w) override { return device_.wait(s, e, w); }
  Fate copy(Stream s, void* to, const void* from, size_t bytes, Where w) override {
    return device_.copy(s, to, from, bytes, w);
  }
  Fate launch(Stream s, std::span<const Access> accesses, Body body, Where w) override {
    return device_.launch(s, accesses, std::move(body), w);
  }
  void when(Event e, std::function<void(Fate)> then, Where w) override {
    device_.when(e, std::move(then), w);
  }
  void on_lost(std::function<void()> then) override { device_.on_lost(std::move(then)); }
  Fate share(const Block& b, int& descriptor) override { return device_.share(b, descriptor); }
  Fate open(int descriptor, size_t bytes, Block& out) override {
    return device_.open(descriptor, bytes, out);
  }
  void touch(const Access& a, Where w) override { device_.touch(a, w); }

  AdverseWorld& world() { return world_; }
  Adversary& adversary() { return device_; }

 private:
  AdverseWorld world_;
  Adversary device_;
};

/// The run with all of its ranks on the device.
inline RunResult simulate_on(Device& device, Settings s, uint64_t seed, RunHooks hooks = {}) {
  s.seed = seed;
  GV_CHECK(static_cast<bool>(check(s)));
  auto objective = make_objective(s);
  GV_CHECK(static_cast<bool>(objective));
  auto share = DeviceShare::make(device, device_sizes(s, **objective));
  GV_CHECK(static_cast<bool>(share));
  hooks.device = std::move(*share);
  return *run(s, std::move(*objective), std::move(hooks));
}

}  // namespace grapevine::testing
