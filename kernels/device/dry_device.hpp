// DryDevice: a Device that only counts memory. To find out how much memory a rank needs, make the
// rank on it; so no formula can be out of date.
#pragma once
#include "kernels/device/device.hpp"

namespace grapevine {

class DryDevice final : public Device {
 public:
  /// An address that no code reads.
  Fate allocate(size_t bytes, Block::Kind kind, Block& out) override {
    constexpr uintptr_t kSomewhere = uintptr_t{1} << 40;
    out = {reinterpret_cast<std::byte*>(kSomewhere), bytes, kind};
    return Fate::ok;
  }
  Fate free(const Block&, Where) override { return Fate::ok; }
  Fate make_stream(bool, Stream& out) override { return out = {streams_++}, Fate::ok; }
  Fate make_event(Event& out) override { return out = {events_++}, Fate::ok; }
  Fate record(Event, Stream, Where) override { return Fate::ok; }
  Fate wait(Stream, Event, Where) override { return Fate::ok; }
  Fate query(Event, Where) override { return Fate::ok; }
  Fate copy(Stream, void*, const void*, size_t, Where) override { return Fate::ok; }
  Fate launch(Stream, std::span<const Access>, Body, Where) override { return Fate::ok; }
  void when(Event, std::function<void(Fate)> then, Where) override { then(Fate::ok); }
  Fate drain() override { return Fate::ok; }
  void on_lost(std::function<void()>) override {}
  void give_up() override {}
  Fate share(const Block&, int&) override { return Fate::lost; }
  Fate open(int, size_t, Block&) override { return Fate::out_of_memory; }

 private:
  uint32_t streams_ = 0, events_ = 0;
};

}  // namespace grapevine
