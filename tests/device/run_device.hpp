// RunDevice: the adversary as the device of a run on the virtual clock.
#pragma once
#include <memory>

#include "tests/device/adversary.hpp"

namespace grapevine::testing {

/// The adversary as the device of a run. Prompt, it has done whatever is asked about, so that the
/// run has the events of one in the host's memory; all else happens in any order that the events
/// allow. Late, its time passes with that of the run: see on_late().
class RunDevice final : public Device {
 public:
  enum class Pace { prompt, late };

  explicit RunDevice(uint64_t seed, Pace pace = Pace::prompt)
      : own_(std::make_unique<AdverseWorld>(seed)),
        world_(*own_),
        device_(world_, "A"),
        pace_(pace) {}
  /// One of several in a world.
  RunDevice(AdverseWorld& world, std::string name, Pace pace)
      : world_(world), device_(world_, std::move(name)), pace_(pace) {}
  void set_pace(Pace pace) { pace_ = pace; }

  Fate query(Event e, Where w) override {
    Fate fate = told(device_.query(e, w));
    for (; pace_ == Pace::prompt && fate == Fate::later; fate = told(device_.query(e, w)))
      if (!world_.step()) return Fate::later;
    return fate;
  }
  Fate free(const Block& b, Where w) override { return told(device_.free(b, w)); }
  Fate pin(const Access& a, Where w) override { return told(device_.pin(a, w)); }
  void unpin(void* data) override { device_.unpin(data); }
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

  const std::unique_ptr<AdverseWorld> own_;
  AdverseWorld& world_;
  Adversary device_;
  Pace pace_;
};

}  // namespace grapevine::testing
