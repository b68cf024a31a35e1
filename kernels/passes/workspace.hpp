// Workspace: memory for vectors on a device, and the numbers that passes compute there.
//
// Memory. One block, allocated at the start, whose ranges are lent (Buffer). They are for the work
// of one stream only. So a returned range may be lent again at once: the stream runs the earlier
// work before the later.
//
// Numbers. On the CPU, dot() and similar functions return at once. On a device they cannot, so code
// that depends on such numbers runs twice: first in ask(), where each call queues its sum and
// returns 1; then, when all sums have arrived, in answer(), where each call returns its sum. The
// second run may ask only for sums that the first one asked for, in any order; so which sums it
// needs must not depend on the answers. REQUIRES: between the two runs the vectors in question are
// not written, or the calls give a `moment`.
//
// The owner of the device owns and calls it.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

/// A number that a pass computes.
struct Question {
  enum class What : uint8_t { dot, square_distance, number } what = What::dot;
  ConstVec x, y;  // `number` uses only x, one element
  size_t moment = 0;
};

/// The sums of one ask().
class Inquiry {
 public:
  bool empty() const { return questions_.empty(); }
  /// After this fence all answers are here; null: nothing was asked.
  const Fence& ready() const { return ready_; }

 private:
  friend class Workspace;
  std::vector<Question> questions_;
  std::vector<Lease> slots_;  // of pinned memory; the passes write them
  Fence ready_;
};

class Workspace {
 public:
  static constexpr size_t kNumbersOfSlot = 30;

  /// REQUIRES: both blocks outlive it; `pinned` has bytes_for(askings) bytes, for this many asks at
  /// once. One ask has kNumbersOfSlot numbers; an ask with more counts as several.
  Workspace(Device&, Fences&, Stream, const Block& memory, const Block& pinned, size_t askings);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  static size_t bytes_for(size_t askings);

  /// Contents are unspecified. Throws std::bad_alloc if too little is left.
  void* take(size_t bytes);
  void give(void*);
  size_t in_use() const { return in_use_; }  // bytes, rounded up to the unit of lending
  size_t most_in_use() const { return most_; }

  /// Calls work(), where every question is queued and answered with 1. Throws std::bad_alloc if
  /// there is too little pinned memory.
  template <class Work>
  void ask(Inquiry& inquiry, Work&& work) {
    const Asking asking(*this, inquiry, Mode::asks);
    work();
    close(inquiry);
  }
  /// Calls work(), where every question gets its answer. REQUIRES: inquiry.ready() has been seen.
  template <class Work>
  void answer(Inquiry& inquiry, Work&& work) {
    open(inquiry);
    const Asking asking(*this, inquiry, Mode::answers);
    work();
  }

  /// Whether answer() is running: the sums need not be computed again.
  bool answers() const { return mode_ == Mode::answers; }
  /// REQUIRES: ask() or answer() is running. dot() and similar functions call it.
  double number_of(const Question&);

 private:
  enum class Mode : uint8_t { none, asks, answers };
  struct Asking {
    Asking(Workspace& home, Inquiry& inquiry, Mode mode) : home(home) {
      GV_CHECK((home.mode_ == Mode::none));
      home.mode_ = mode;
      home.inquiry_ = &inquiry;
    }
    ~Asking() { home.mode_ = Mode::none; }
    Workspace& home;
  };

  void queue(const Question&, Vec result);
  void close(Inquiry&);
  void open(Inquiry&);

  Device& device_;
  Fences& fences_;
  const Execution execution_;
  const Block memory_;
  std::map<std::byte*, size_t> free_;   // by address: bytes
  std::map<std::byte*, size_t> taken_;  // by address: bytes
  size_t in_use_ = 0, most_ = 0;
  SnapshotPool numbers_;
  Vec blocks_;  // partial sums of the pass in progress
  Mode mode_ = Mode::none;
  Inquiry* inquiry_ = nullptr;
};

}  // namespace grapevine
