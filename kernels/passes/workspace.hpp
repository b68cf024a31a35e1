// Workspace: what passes on a device need beside it: vectors that are made there, and the numbers
// that passes find out.
//
// Memory. One block, taken at the start, of which stretches are lent (Buffer). They are for the
// work of one stream alone, so a stretch that comes back may be lent again at once: the stream
// orders the work of those who had it before that of those who get it.
//
// Numbers. On the CPU dot() and its like answer at once; on a device they cannot, and code that
// goes by such numbers is run twice: first in ask(), where each call queues its sum and answers 1,
// then, when all of them have come, in answer(), where each gets what was asked for. What is
// wanted the second time must have been wanted the first time, in any order: so it must not hang
// on the answers. REQUIRES: between the two nobody writes what was asked about, or the questions
// say of which moment they are.
//
// Owned and called by the owner of the device.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

/// Something that a pass finds out.
struct Question {
  enum class What : uint8_t { dot, square_distance, number } what = What::dot;
  ConstVec x, y;  // of a number x alone, its one element
  size_t moment = 0;
};

/// What was asked for at once.
class Inquiry {
 public:
  bool empty() const { return questions_.empty(); }
  /// Behind it all of it is there; null: nothing was asked for.
  const Fence& ready() const { return ready_; }

 private:
  friend class Workspace;
  std::vector<Question> questions_;
  std::vector<Lease> slots_;  // of pinned memory, which the passes write
  Fence ready_;
};

class Workspace {
 public:
  static constexpr size_t kNumbersOfSlot = 30;

  /// REQUIRES: both blocks outlive it, `pinned` of bytes_for() bytes: of so many askings at once,
  /// each of kNumbersOfSlot numbers; one of more counts as several.
  Workspace(Device&, Fences&, Stream, const Block& memory, const Block& pinned, size_t askings);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  static size_t bytes_for(size_t askings);

  /// Contents are unspecified. Too little left is std::bad_alloc.
  void* take(size_t bytes);
  void give(void*);
  size_t in_use() const { return in_use_; }  // bytes, rounded up to what is lent at least
  size_t most_in_use() const { return most_; }

  /// Work() with every question queued and answered by 1. Too little pinned memory is
  /// std::bad_alloc.
  template <class Work>
  void ask(Inquiry& inquiry, Work&& work) {
    const Asking asking(*this, inquiry, Mode::asks);
    work();
    close(inquiry);
  }
  /// Work() with every question answered. REQUIRES: inquiry.ready() has been seen.
  template <class Work>
  void answer(Inquiry& inquiry, Work&& work) {
    open(inquiry);
    const Asking asking(*this, inquiry, Mode::answers);
    work();
  }

  /// Whether this is in answer(): what was asked for needs no work once more.
  bool answers() const { return mode_ == Mode::answers; }
  /// REQUIRES: in ask() or answer(). What dot() and its like call.
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
