// Ferry: vectors on their way between the host's memory and a device's, a piece at a time through a
// few pinned slots. For what is rare and may take its time: ranks that come, reports, checkpoints.
//
// Owned and called by the owner of the device. All copies are queued on one stream, that of the
// passes, so they need no other order.
#pragma once
#include <deque>
#include <functional>
#include <memory>

#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

class Ferry {
 public:
  /// Calls `then` in the owner's own time once the fence has come; never where the device is lost.
  using Await = std::function<void(const Fence&, std::function<void()> then)>;

  static constexpr size_t kSlots = 4;

  /// REQUIRES: `pinned` outlives it and has bytes_for(piece_bytes).
  Ferry(Device&, Fences&, Stream, const Block& pinned, size_t piece_bytes, Await);
  static size_t bytes_for(size_t piece_bytes);

  /// Calls `done` when all of it is queued: work that is queued from then on finds it there. `host`
  /// stays as it is until then.
  void up(ConstVec host, Vec there, std::function<void()> done);
  /// Calls `done` when all of it is in `host`. REQUIRES: until then nobody writes `there`.
  void down(ConstVec there, Vec host, std::function<void()> done);

 private:
  struct Trip {
    bool is_up;
    std::byte *host, *there;
    size_t left;  // bytes
    std::function<void()> done;
    // Pieces that are not there yet: they may be told of in any order.
    std::shared_ptr<size_t> missing = {};
  };

  void begin(Trip);
  void go_on();
  bool carry(Trip&);  // a piece of it; false: no slot is free, or the device is lost

  Device& device_;
  Fences& fences_;
  const Stream stream_;
  const size_t piece_bytes_;
  SnapshotPool slots_;
  Await await_;
  std::deque<Trip> trips_;
  bool going_ = false;
};

}  // namespace grapevine
