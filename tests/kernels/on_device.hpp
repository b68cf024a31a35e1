// Vectors of a test on a device, and the way there and back: for any Device, the adversary or a
// GPU.
#pragma once
#include <cstring>
#include <functional>
#include <utility>

#include "kernels/device/device.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine::testing {

class OnDevice {
 public:
  /// `wait` lets time pass: it is called until what is awaited has come.
  OnDevice(Device& device, size_t bytes, std::function<void()> wait)
      : device_(device), wait_(std::move(wait)) {
    check(device_.make_stream(false, stream_));
    check(device_.make_event(event_));
    check(device_.allocate(bytes, Block::Kind::device, memory_));
    check(device_.allocate(bytes, Block::Kind::pinned, staging_));
  }
  ~OnDevice() {
    finish();
    check(device_.free(memory_));
    check(device_.free(staging_));
  }
  OnDevice(const OnDevice&) = delete;

  Execution execution() const { return {nullptr, &device_, stream_}; }

  /// All memory is free again.
  void clear() {
    finish();
    used_ = 0;
  }

  /// `size` elements, `shift` elements past a boundary of 256 bytes; nobody has written them.
  Vec make(size_t size, DType dtype, size_t shift = 0) {
    constexpr size_t kBoundary = 256;
    const size_t first = (used_ + kBoundary - 1) / kBoundary * kBoundary + shift * size_of(dtype);
    used_ = first + size * size_of(dtype);
    GV_CHECK(used_ <= memory_.bytes);
    return {memory_.data + first, size, dtype};
  }

  Vec upload(ConstVec host, size_t shift = 0) {
    const Vec there = make(host.size, host.dtype, shift);
    write(host, there);
    return there;
  }

  void write(ConstVec host, Vec there) {
    if (host.bytes() == 0) return;
    std::memcpy(staging_.data, host.data, host.bytes());
    device_.touch({staging_.data, host.bytes(), Access::Mode::writes});
    check(device_.copy(stream_, there.data, staging_.data, host.bytes()));
    finish();
  }

  void read(ConstVec there, Vec host) {
    if (host.bytes() == 0) return;
    check(device_.copy(stream_, staging_.data, there.data, host.bytes()));
    finish();
    device_.touch({staging_.data, host.bytes(), Access::Mode::reads});
    std::memcpy(host.data, staging_.data, host.bytes());
  }

  double number(ConstVec there) {  // of fp64
    double value = 0;
    read(there, {&value, 1, DType::f64});
    return value;
  }

  /// Waits until all queued work is done.
  void finish() {
    check(device_.record(event_, stream_));
    Fate fate = device_.query(event_);
    for (; fate == Fate::later; fate = device_.query(event_))
      wait_();
    check(fate);
  }

 private:
  static void check(Fate fate) { GV_CHECK((fate == Fate::ok)); }

  Device& device_;
  std::function<void()> wait_;
  Stream stream_;
  Event event_;
  Block memory_, staging_;
  size_t used_ = 0;
};

}  // namespace grapevine::testing
