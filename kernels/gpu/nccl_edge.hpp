// NcclEdge: snapshots exchanged between the GPUs of two hosts by a communicator of NCCL that these
// two have to themselves. Experimental: two GPUs have not met through it yet.
//
// A kernel of NCCL is a wait that a peer must satisfy. So an edge has a stream of its own, a lane
// (fence.hpp), which no shared stream waits for: the host sees the end of an exchange, and then
// queues what reads the result. Everything is begun, polled and given up, nothing waited for.
//
//               success          exchange()          success            the host sees the end
//   connecting ---------> ready -----------> queueing ---------> flying ---------------------->
//   ready
//       |                   |                   |                  |
//       +-- error, deadline +------ error ------+- error, deadline +--> broken
//
// An edge that breaks says so once, and is not mended: its owner takes the host's memory instead,
// and may connect another one. What it held (the slots of its exchange, its stream) is written off
// until NCCL has let go of it: abort runs on a thread of its own, may never return, and nobody
// waits.
//
// At most one edge of a device has an exchange under way, and none while one connects: a device
// that does two exchanges one after the other, and a peer that does them the other way round, would
// wait for each other; and what NCCL allocates while it connects may wait for all that runs, so for
// a peer. An edge takes its turn before it agrees on a number with the other end (by message), and
// both then begin that number or drop the edge: no end ever takes one number for another.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

/// NCCL's ncclResult_t. Whatever is none of these is an error, too.
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
  size_t sent_bytes = 0, received_bytes = 0;  // 0: nothing goes that way
  void* stream = nullptr;                     // native
};

/// NCCL as an edge needs it (nccl.hpp; a fake in the tests). None waits.
struct NcclCalls {
  /// Of two ranks, 0 and 1. `out` stays null where there is nothing to give up.
  std::function<NcclAnswer(const NcclId&, int rank, NcclComm& out)> init;
  std::function<NcclAnswer(NcclComm)> poll;
  /// Sends and receives, each if there are bytes, in one group. The body of a pass (device.hpp):
  /// with no native stream it does the work itself, and may then be called more than once with one
  /// number.
  std::function<NcclAnswer(NcclComm, const NcclTransfer&)> exchange;
  /// The communicator is given up: whatever it does is broken off, or, of one that is idle, it is
  /// put away. `ended` is called when that is done, on another thread, or never.
  std::function<void(NcclComm, std::function<void()> ended)> abort, destroy;
};

struct NcclOptions {
  uint32_t most_edges = 8;         // those written off included
  double connect_s = 10;           // the other end included
  double patience_s = 2;           // of an exchange, and besides
  double floor_bytes_per_s = 1e8;  // what the network does at least, each way
  double poll_s = 1e-2, queueing_poll_s = 2e-4;
};

/// The messages of an edge to its owner. An exchange ends with either `arrived` or `broken`, once;
/// nothing follows `broken`.
struct NcclNews {
  enum class Kind : uint8_t { connected, arrived, broken } kind = Kind::connected;
  uint64_t number = 0;      // of the exchange; broken: 0 if there was none
  Lease received = {};      // arrived: what the other end sent; empty: nothing
  std::string reason = {};  // broken
};

class NcclEdge {
 public:
  ~NcclEdge();  // tells nothing any more
  NcclEdge(const NcclEdge&) = delete;

  bool is_ready() const;
  bool is_broken() const;
  Stream stream() const;  // that `received` is to be taken for

  /// The device's only exchange is this edge's to begin. False: use the host's memory.
  bool take_turn();
  void leave_turn();  // not after all. Without a turn: nothing

  /// One way of an exchange: that many bytes of a slot. None: nothing goes that way.
  struct Half {
    Lease slot = {};
    size_t bytes = 0;
  };
  /// Keeps both slots until the host has seen the end. False: the edge has broken, which has been
  /// or will be told. REQUIRES: the turn is taken; both ends have agreed on the number and the
  /// bytes each way, of which one at least has some; numbers increase; whatever stream() does from
  /// now on is behind all that uses the slot to be received into, which nobody else has.
  bool exchange(uint64_t number, Half sent, Half received, double now_s);

  /// To be called at due_s(), or when one likes.
  void poll(double now_s);
  double due_s() const;  // infinity: nothing is awaited

 private:
  friend class NcclEdges;
  struct Core;
  explicit NcclEdge(std::shared_ptr<Core>);
  std::shared_ptr<Core> core_;
};

/// The edges of one device. It, and they, belong to its owner, and outlive neither it nor `Fences`.
class NcclEdges {
 public:
  NcclEdges(Device&, Fences&, NcclCalls, ToOwner, const NcclOptions& = {});
  ~NcclEdges();
  NcclEdges(const NcclEdges&) = delete;

  /// At the start: makes the streams.
  Fate start();

  /// Begins to connect; the two ends have ranks 0 and 1. Null: not now. An exchange is under way,
  /// or written off, or there are `most_edges` already.
  std::unique_ptr<NcclEdge> connect(const NcclId&, int rank, std::function<void(NcclNews)> tell,
                                    double now_s);

  size_t edges() const;        // those whose communicator is not given up entirely
  size_t written_off() const;  // of these, with an exchange that NCCL has not let go of

 private:
  friend class NcclEdge;
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace grapevine
