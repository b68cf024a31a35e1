// Device: a GPU as its owner uses it: memory, streams of work, events, copies and passes.
//
// Two implementations do work: CUDA (cuda_device.hpp), and the tests' adversary
// (tests/device/adversary.hpp), which does the same work on the CPU in any order that the events
// allow. So all code that decides about order is above this interface and is tested without a GPU.
//
// A device has one owner. Only the owner calls it, from one thread at a time. The exception is
// launch(): another thread may launch work that the host takes long to queue (a network's
// gradient), while no other thread uses that stream. Only drain() waits for the device. Each call
// returns a Fate:
//
//   ok             done, or queued
//   later          query() only: the event has not happened yet
//   out_of_memory  nothing was done; open(): that memory cannot be opened here
//   lost           The hardware or its driver has failed, permanently. From then on every call
//                  returns this without asking the hardware, and everything that waits is told
//                  once.
//
// An error that only a bug in this code can cause (a wrong address, stream or event) ends the
// process.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <span>

#include "kernels/device/access.hpp"
#include "kernels/device/execution.hpp"

namespace grapevine {

/// The line of the call, for the adversary's reports.
using Where = std::source_location;

enum class [[nodiscard]] Fate : uint8_t{ok, later, out_of_memory, lost};

/// A point in a stream: all work queued there before record(). An event may be recorded again; a
/// wait queued before still refers to the earlier point.
struct Event {
  uint32_t id = 0;
};

/// Memory. Only passes and copies use the address of a device's memory; the host never reads it.
struct Block {
  enum class Kind : uint8_t {
    device,
    shared,  // also the device's; other processes may open it
    pinned   // the host's
  };
  std::byte* data = nullptr;
  size_t bytes = 0;
  Kind kind = Kind::device;
};

/// A pass. where[k] is the address of access k in this call. The body has no other address, so it
/// can touch only declared memory. `native` is a cudaStream_t, on which the body queues its CUDA
/// version and does nothing else. Null: it does the work now, on the CPU. The device may call the
/// body more than once.
using Body = std::function<void(void* native, void* const* where)>;

class Device {
 public:
  virtual ~Device() = default;

  /// Call it only at the start: an allocation may wait for all running work. Contents are
  /// unspecified. On a machine that cannot share memory, `shared` gives out_of_memory.
  virtual Fate allocate(size_t bytes, Block::Kind, Block& out) = 0;
  /// REQUIRES: no work that uses it is in flight.
  virtual Fate free(const Block&, Where = Where::current()) = 0;

  /// Pins this host memory; mode `reads` if the process may only read it. out_of_memory: it cannot
  /// be pinned. The memory must stay until unpin(), which any thread may call when no work that
  /// uses it is in flight.
  virtual Fate pin(const Access&, Where = Where::current()) { return Fate::out_of_memory; }
  virtual void unpin(void*) {}

  virtual Fate make_stream(bool urgent, Stream& out) = 0;
  virtual Fate make_event(Event& out) = 0;
  virtual Fate record(Event, Stream, Where = Where::current()) = 0;
  /// Work queued on the stream from now on runs after the event's point at this call. An event that
  /// was never recorded has no effect.
  virtual Fate wait(Stream, Event, Where = Where::current()) = 0;
  virtual Fate query(Event, Where = Where::current()) = 0;

  /// Copies between blocks of this device and pinned ones. Pageable memory breaks the precondition:
  /// such a copy may block the caller, or read data that the caller writes later.
  virtual Fate copy(Stream, void* to, const void* from, size_t bytes, Where = Where::current()) = 0;
  virtual Fate launch(Stream, std::span<const Access>, Body, Where = Where::current()) = 0;

  /// Calls then(ok) when the event has happened, or then(lost) when it never will: exactly once, on
  /// a thread of the device's choice, where `then` may only post a message. REQUIRES: the event is
  /// not recorded again before that.
  virtual void when(Event, std::function<void(Fate)> then, Where = Where::current()) = 0;
  /// Waits until all queued work is done; for the end.
  virtual Fate drain() = 0;
  /// Calls then() once if the device is found to be lost, on a thread as above. Empty: no call.
  virtual void on_lost(std::function<void()> then) = 0;
  /// The owner has waited too long: the device is lost from now on, as if the hardware had failed.
  /// Work in flight is not touched.
  virtual void give_up() = 0;

  /// A descriptor with which other processes open() this block, of kind `shared`. The caller must
  /// close it. The block's pages exist as long as any process has them open, even after the block
  /// is freed or its owner dies.
  virtual Fate share(const Block&, int& descriptor) = 0;
  /// `bytes`: the block's size as the other process gives it. out_of_memory: the block is smaller,
  /// or cannot be opened here. The caller still owns the descriptor.
  virtual Fate open(int descriptor, size_t bytes, Block& out) = 0;

  /// The host is about to read this pinned memory, or has written it. No effect on CUDA; the
  /// adversary checks that it is allowed.
  virtual void touch(const Access&, Where = Where::current()) {}
};

}  // namespace grapevine
