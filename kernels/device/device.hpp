// Device: a GPU as its owner uses it: memory, streams of work, events, copies and passes.
//
// It has two implementations: CUDA (cuda_device.hpp), and the adversary of the tests
// (tests/device/adversary.hpp), which does the same work on the CPU in any order that the events
// allow. So all code that decides about order is above this interface and is tested without a GPU.
//
// A device has one owner. Only the owner calls it, from one thread at a time. The exception is
// launch(): work that the host takes long to queue (a network's gradient) may be launched by
// another thread, while no other thread uses that stream. No call but drain() waits for the device.
// Each returns a Fate:
//
//   ok             done, or queued
//   later          of query(): the event has not happened yet
//   out_of_memory  nothing was done; of open(): that memory cannot be opened here
//   lost           for good. The hardware or its driver has failed; from then on every call returns
//                  this without asking the hardware, and everything that waits is told so once
//
// An error that only a bug of ours can cause (a wrong address, stream or event) ends the process.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <span>

#include "kernels/device/access.hpp"
#include "kernels/device/execution.hpp"

namespace grapevine {

/// The line of the call, for the reports of the adversary.
using Where = std::source_location;

enum class [[nodiscard]] Fate : uint8_t{ok, later, out_of_memory, lost};

/// A point in a stream. Once recorded, it stands for all work queued there before. It may be
/// recorded again; a wait that was queued before still refers to the earlier point.
struct Event {
  uint32_t id = 0;
};

/// Memory. The address of a device's memory is for passes and copies alone: the host never follows
/// it.
struct Block {
  enum class Kind : uint8_t {
    device,
    shared,  // the device's, too: other processes may open it
    pinned   // the host's
  };
  std::byte* data = nullptr;
  size_t bytes = 0;
  Kind kind = Kind::device;
};

/// A pass. where[k] is the address of access k in this call. The body has no other address, so it
/// can touch only declared memory. `native` is a cudaStream_t, on which the body queues its CUDA
/// version and does nothing else; null: it does the work now, on the CPU. May be called more than
/// once.
using Body = std::function<void(void* native, void* const* where)>;

class Device {
 public:
  virtual ~Device() = default;

  /// At the start only: an allocation may wait for all that runs. Contents are unspecified. Where
  /// memory cannot be shared, none is left of that kind.
  virtual Fate allocate(size_t bytes, Block::Kind, Block& out) = 0;
  /// REQUIRES: no work in flight on it.
  virtual Fate free(const Block&, Where = Where::current()) = 0;

  /// This memory of the host's is pinned from now on. out_of_memory: it cannot be. The memory stays
  /// until unpin(), which any thread may call when no work is in flight on it.
  virtual Fate pin(void*, size_t /*bytes*/, Where = Where::current()) {
    return Fate::out_of_memory;
  }
  virtual void unpin(void*) {}

  virtual Fate make_stream(bool urgent, Stream& out) = 0;
  virtual Fate make_event(Event& out) = 0;
  virtual Fate record(Event, Stream, Where = Where::current()) = 0;
  /// Makes work that is queued on the stream from now on run after the point that the event stands
  /// for at this call. An event that was never recorded stands for nothing.
  virtual Fate wait(Stream, Event, Where = Where::current()) = 0;
  virtual Fate query(Event, Where = Where::current()) = 0;

  /// Between blocks of this device and pinned ones. Pageable memory is a broken precondition: such
  /// a copy may block the caller, or read data that the caller writes later.
  virtual Fate copy(Stream, void* to, const void* from, size_t bytes, Where = Where::current()) = 0;
  virtual Fate launch(Stream, std::span<const Access>, Body, Where = Where::current()) = 0;

  /// Calls then(ok) once the event has happened, or then(lost) once it never will: exactly once, on
  /// a thread of the device's choice, where it may only post a message. REQUIRES: the event is not
  /// recorded again before that.
  virtual void when(Event, std::function<void(Fate)> then, Where = Where::current()) = 0;
  /// Waits until all that was queued has happened: at the end.
  virtual Fate drain() = 0;
  /// Calls then() once if the device is ever found to be lost, on a thread as above; empty: nobody
  /// is told.
  virtual void on_lost(std::function<void()> then) = 0;
  /// Its owner has waited too long: the device is lost from now on, as if the hardware had failed.
  /// Work in flight is left alone.
  virtual void give_up() = 0;

  /// A descriptor, the caller's to close, by which other processes open() this block, which is of
  /// the kind for that; its pages stay for as long as anybody has them open, also when the block is
  /// freed or its owner dies.
  virtual Fate share(const Block&, int& descriptor) = 0;
  /// `bytes` is the size of the block as the other end tells it. out_of_memory: the block is
  /// smaller, or cannot be opened here. The caller still owns the descriptor.
  virtual Fate open(int descriptor, size_t bytes, Block& out) = 0;

  /// The host is about to read this pinned memory, or has written it. Nothing on CUDA; the
  /// adversary looks whether it may.
  virtual void touch(const Access&, Where = Where::current()) {}
};

}  // namespace grapevine
