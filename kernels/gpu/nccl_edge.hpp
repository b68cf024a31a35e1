// NcclEdge: exchanges snapshots between the GPUs of two hosts by an NCCL communicator for these two
// only. Experimental: two GPUs have not used it yet.
//
// A kernel of NCCL waits for a peer. So an edge has a stream of its own, a lane (fence.hpp), and no
// shared stream waits for it: the host sees the end of an exchange, and then queues the work that
// reads the result. The code begins, polls and gives up operations; it never waits for one.
//
//               success          exchange()          success            the host sees the end
//   connecting ---------> ready -----------> queueing ---------> flying ----------------> ready
//       |                   |                   |                  |
//       +-- error, deadline +------ error ------+- error, deadline +--> broken
//
// An edge that breaks says so once and stays broken. Its owner uses the host's memory instead, and
// may connect another edge. The resources of a broken edge (the slots of its exchange, its stream)
// are written off until NCCL has released them. abort runs on a thread of its own and may never
// return; no code waits for it.
//
// At most one edge of a device has an exchange in progress, and none while an edge connects.
// Otherwise two devices that do two exchanges in opposite order would wait for each other; and the
// allocations of NCCL while it connects may wait for all running work, and so for a peer. An edge
// takes its turn before it agrees on a number with the other end (by message). Both then begin that
// number or drop the edge, so neither end confuses two numbers.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

/// NCCL's ncclResult_t. Any other value is an error, too.
enum class NcclAnswer : int {
  success,
  unhandled_cuda_error,
  system_error,
  internal_error,
  invalid_argument,
  invalid_usage,
  remote_error,
  in_progress
};
const char* words(NcclAnswer);

using NcclId = std::array<std::byte, 128>;  // made by one end, sent to the other: plain bytes
using NcclComm = void*;

struct NcclTransfer {
  uint64_t number = 0;
  int peer = 0;
  const void* sent = nullptr;
  void* received = nullptr;
  size_t sent_bytes = 0, received_bytes = 0;  // 0: nothing is sent in that direction
  void* stream = nullptr;                     // native
};

/// The functions of NCCL that an edge needs (nccl.hpp; a fake in the tests). None of them waits.
struct NcclCalls {
  /// For two ranks, 0 and 1. `out` stays null if there is nothing to give up.
  std::function<NcclAnswer(const NcclId&, int rank, NcclComm& out)> init;
  std::function<NcclAnswer(NcclComm)> poll;
  /// Sends and receives in one group, each if it has bytes. Runs in the body of a pass
  /// (device.hpp): without a native stream it does the work itself, and may then be called more
  /// than once with one number.
  std::function<NcclAnswer(NcclComm, const NcclTransfer&)> exchange;
  /// Both give up the communicator: `abort` stops its work, `destroy` is for an idle one. `ended`
  /// is called when that is done, on another thread, or never.
  std::function<void(NcclComm, std::function<void()> ended)> abort, destroy;
};

struct NcclOptions {
  uint32_t most_edges = 8;         // including those written off
  double connect_s = 10;           // includes the wait for the other end
  double patience_s = 2;           // of an exchange, in addition to its transfer time
  double floor_bytes_per_s = 1e8;  // the least speed of the network, each way
  double poll_s = 1e-2, queueing_poll_s = 2e-4;
};

/// An edge's messages to its owner. An exchange ends with either `arrived` or `broken`, once;
/// nothing follows `broken`.
struct NcclNews {
  enum class Kind : uint8_t { connected, arrived, broken } kind = Kind::connected;
  uint64_t number = 0;      // of the exchange; broken: 0 if there was none
  Lease received = {};      // arrived: the data of the other end; empty: none
  std::string reason = {};  // broken
};

class NcclEdge {
 public:
  ~NcclEdge();  // sends no more news
  NcclEdge(const NcclEdge&) = delete;

  bool is_ready() const;
  bool is_broken() const;
  Stream stream() const;  // take `received` for this stream

  /// Reserves the device's only exchange for this edge. False: use the host's memory.
  bool take_turn();
  void leave_turn();  // gives up the turn; no effect without one

  /// One direction of an exchange: `bytes` of a slot. None: nothing is sent that way.
  struct Half {
    Lease slot = {};
    size_t bytes = 0;
  };
  /// Keeps both slots until the host has seen the end. False: the edge has broken; the news was or
  /// will be sent. REQUIRES: take_turn() succeeded; both ends have agreed on the number and on the
  /// bytes of each direction, at least one of which is above 0; numbers increase; all earlier uses
  /// of the receiving slot come before the work of stream() from now on, and nothing else has a
  /// lease on that slot.
  bool exchange(uint64_t number, Half sent, Half received, double now_s);

  /// Call it at due_s() or at any other time.
  void poll(double now_s);
  double due_s() const;  // infinity: nothing is awaited

 private:
  friend class NcclEdges;
  struct Core;
  explicit NcclEdge(std::shared_ptr<Core>);
  std::shared_ptr<Core> core_;
};

/// The edges of one device. They belong to its owner, and must not outlive it or `Fences`.
class NcclEdges {
 public:
  NcclEdges(Device&, Fences&, NcclCalls, ToOwner, const NcclOptions& = {});
  ~NcclEdges();
  NcclEdges(const NcclEdges&) = delete;

  /// Makes the streams; call it at the start.
  Fate start();

  /// Begins to connect; the two ends have ranks 0 and 1. Null: not now, because an exchange is in
  /// progress or written off, or there are `most_edges` already.
  std::unique_ptr<NcclEdge> connect(const NcclId&, int rank, std::function<void(NcclNews)> tell,
                                    double now_s);

  size_t edges() const;        // those whose communicator is not fully released
  size_t written_off() const;  // of these, those with an exchange that NCCL has not released

 private:
  friend class NcclEdge;
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace grapevine
