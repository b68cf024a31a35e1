// Ferry: copies vectors between the host's memory and a device's, in pieces through a few pinned
// slots.
//
// The owner of the device owns it and calls it. All copies in one direction are queued on one
// stream, so they stay in order.
#pragma once
#include <deque>
#include <functional>
#include <memory>

#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

class Ferry {
 public:
  /// Calls `then` on the owner when the fence has come; never if the device is lost.
  using Await = std::function<void(const Fence&, std::function<void()> then)>;

  /// Copies within the host's memory and calls `then` on the owner. Empty: copies at once.
  using HostCopy =
      std::function<void(void* to, const void* from, size_t bytes, std::function<void()> then)>;
  struct Streams {
    Stream up, down;
  };

  static constexpr size_t kSlots = 4;

  /// REQUIRES: `pinned` outlives it and has bytes_for(piece_bytes).
  Ferry(Device&, Fences&, Streams, const Block& pinned, size_t piece_bytes, Await, HostCopy = {});
  static size_t bytes_for(size_t piece_bytes);

  enum class Until : uint8_t { queued, there };
  /// Calls `done` when all of it is queued (later work on that stream then finds it), or when it is
  /// complete, for any stream. `host` must not change until then.
  void up(ConstVec host, Vec there, std::function<void()> done, Until = Until::queued);
  /// Calls `done` when all of it is in `host`. REQUIRES: until then nothing writes `there`.
  void down(ConstVec there, Vec host, std::function<void()> done);

 private:
  struct End {
    size_t missing;  // pieces; they may complete in any order
    std::function<void()> done;
    Until until = Until::there;
  };
  struct Trip {
    bool is_up;
    std::byte *host, *there;
    size_t left;  // bytes
    std::shared_ptr<End> end;
  };
  struct Piece {
    Lease slot;
    std::byte *host, *there;
    size_t bytes;
    std::shared_ptr<End> end;
  };
  using PiecePointer = std::shared_ptr<Piece>;  // one pointer, so one lease on the slot

  void begin(Trip, std::function<void()> done, Until);
  void go_on();
  bool carry(Trip&);  // one piece; false: no slot is free, or the device is lost
  void up(const PiecePointer&);
  bool down(const PiecePointer&);
  bool queue(Piece&, bool is_up, Fence& out);
  static void end(Piece&);

  Device& device_;
  Fences& fences_;
  const Streams streams_;
  const size_t piece_bytes_;
  SnapshotPool slots_;
  Await await_;
  HostCopy host_copy_;
  std::deque<Trip> trips_;
  bool going_ = false;
};

}  // namespace grapevine
