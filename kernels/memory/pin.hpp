// Pin: the part of a piece of the host's memory that is pinned for a device, so that the device
// copies from it and to it directly.
//
// Pinning takes about 50 us per MiB and fills the memory's pages. So memory is pinned once, as far
// as it is used, and stays pinned until it is freed.
#pragma once
#include <functional>

#include "kernels/device/access.hpp"

namespace grapevine {

/// Pins memory for a device. It keeps what `unpin` needs alive.
struct Pinner {
  // The owner of the device calls it. False: it cannot be pinned. A `reads` access: the process may
  // only read this memory.
  std::function<bool(const Access&)> pin;
  std::function<void(void* data)> unpin;  // any thread
};

class Pin {
 public:
  Pin() = default;
  ~Pin() { drop(); }
  Pin(const Pin&) = delete;

  /// Pins at least the first `bytes` of `memory`, which is always the same. False: they cannot be
  /// pinned; then this is not tried again. REQUIRES: no queued work uses what is pinned now, unless
  /// it covers `bytes`.
  bool cover(const Access& memory, size_t bytes, const Pinner&);
  bool covers(size_t bytes) const { return bytes <= bytes_; }
  /// Before the memory is freed, on any thread. REQUIRES: no queued work uses it.
  void drop();

 private:
  size_t bytes_ = 0;
  bool is_refused_ = false;
  std::function<void()> unpin_;
};

}  // namespace grapevine
