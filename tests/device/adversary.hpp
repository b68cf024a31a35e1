// Adversary: a Device for tests, which does all that a GPU may do and tells when a program relied
// on less. It is never kind on purpose and never wrong by accident: a finding is a bug of the
// program.
//
//  - Order. Work is queued, and done later on the virtual clock, whichever stream may go on, with
//    durations drawn from the seed over four decades. Whatever the events allow happens sooner or
//    later.
//  - The judge (judge.hpp) finds what no event and no message orders, also where it went well.
//  - A second copy of all memory does the same work at once, in the order of the calls. If events
//    order all that must be ordered, both hold the same bits: at every read of the host, and when
//    all is done.
//  - Poison. Fresh and freed memory, and what is being written from the start of the work to its
//    end, is NaN to whoever looks.
//  - Addresses of device memory are pages without access: host code that follows one dies. A pass
//    works elsewhere, so it reaches nothing that it has not declared; what it says it reads must
//    have been written and stay as it is, and what it says it writes it must write whole.
//  - CUDA's semantics: a wait keeps the record of its call, an event never recorded has come, a
//    function that may only post must not call the device, and pageable memory in a copy is a
//    finding and read late.
//  - Failures: the k-th call or the k-th piece of work fails and the device is lost, or its process
//    is killed.
//
// It is sequentially consistent and has no bandwidth: it proves order, not speed.
#pragma once
#include <deque>

#include "tests/device/adverse_world.hpp"

namespace grapevine::testing {

class Adversary final : public Device {
 public:
  Adversary(AdverseWorld&, std::string name);
  ~Adversary() override;
  Adversary(const Adversary&) = delete;

  Fate allocate(size_t bytes, Block::Kind, Block&) override;
  Fate free(const Block&, Where) override;
  Fate pin(const Access&, Where) override;
  void unpin(void*) override;
  Fate make_stream(bool urgent, Stream&) override;
  Fate make_event(Event&) override;
  Fate record(Event, Stream, Where) override;
  Fate wait(Stream, Event, Where) override;
  Fate query(Event, Where) override;
  Fate copy(Stream, void* to, const void* from, size_t bytes, Where) override;
  Fate launch(Stream, std::span<const Access>, Body, Where) override;
  void when(Event, std::function<void(Fate)>, Where) override;
  Fate drain() override;
  void on_lost(std::function<void()> then) override;
  void give_up() override;
  Fate share(const Block&, int& descriptor) override;
  Fate open(int descriptor, size_t bytes, Block&) override;
  void touch(const Access&, Where) override;

  /// The next pass on the stream waits for a peer, until it is let go.
  void hold(Stream stream) { held_.insert(stream.id); }
  void let_go(Stream);
  /// On which the pass is queued whose body is called just then.
  Stream queueing() const { return queueing_; }

  /// Its process has died: nothing that was queued is done any more.
  void kill();
  /// All should be done, and memory be what the calls in their order make it. Findings if not.
  void finish_all();
  bool lost() const { return lost_; }
  int host() const { return host_; }  // as the judge counts
  size_t pinned_bytes() const;        // of the host, now
  /// All that it ever did: known to whoever knows that it does no more.
  Judge::Clock all() const;

  // Set by the test, when it likes:
  bool shares = true;                     // other processes may open its memory
  bool pins = true;                       // memory of the host can be pinned
  std::map<uint32_t, double> slow;        // streams, and by which factor
  uint64_t fail_call = 0, fail_work = 0;  // the k-th call, or piece of work, counted from 1
  uint64_t silent_call = 0;               // from this call on nothing that is queued happens
  uint64_t calls = 0, works = 0;

 private:
  struct Backing {  // what a block is made of
    std::vector<std::byte> real, golden;
    std::vector<uint8_t> written;  // 1: a byte that a call has written, whatever it is
    Judge::Clock closed;           // what those knew who have given it up
    std::byte* outside = nullptr;  // pageable memory of the caller instead
    std::byte* first() { return outside != nullptr ? outside : real.data(); }
  };
  struct Area {
    Block block;
    std::shared_ptr<Backing> backing;
    bool opened = false;     // it is another process's
    bool only_read = false;  // pinned for reading alone
  };
  struct Record {  // what an event stands for
    Judge::Clock clock;
    bool done = false;
    std::vector<std::function<void(Fate)>> awaited;
  };
  struct Work {
    enum class Kind { pass, record, wait } kind = Kind::pass;
    std::vector<Access> accesses = {};
    Body body = {};
    std::shared_ptr<Record> record = {};
    Where where = {};
    uint64_t number = 0;
    std::vector<std::vector<std::byte>> saved = {};  // what is poisoned while the pass runs
  };
  struct Queue {
    int who = 0;  // as the judge counts
    bool busy = false;
    std::deque<Work> work;
  };

  bool refused(bool fails);
  bool is_silent() const { return silent_call != 0 && calls >= silent_call; }
  void lose();
  void drop_all();
  void later(double delay_s, const std::shared_ptr<int>& life, std::function<void()> what);
  void post(std::function<void(Fate)> then, Fate, std::shared_ptr<Record>);
  Area* area_of(const void*, size_t bytes);
  std::byte* real(const Access&);
  std::byte* golden(const Access&);
  uint8_t* written(const Access&);
  bool gone(const Work&);
  std::set<int> own() const;
  void lend_pageable(const void*, size_t bytes, Where);
  Fate enqueue(Stream, std::vector<Access>, Body, const char* what, Where);
  void run_golden(const Work&);
  void note_written(const Access&);
  void check_written(const Work&, const std::vector<void*>& where,
                     const std::vector<std::vector<std::byte>>& before);
  void go_on();
  void begin(size_t stream);
  void finish(size_t stream);
  void run_real(Work&);

  AdverseWorld& world_;
  std::string name_;
  int host_;
  bool lost_ = false, in_callback_ = false;
  // Events that are due are dropped when the life that they belong to ends.
  std::shared_ptr<int> process_ = std::make_shared<int>(), working_ = std::make_shared<int>();
  std::function<void()> on_lost_;
  std::map<const std::byte*, Area> areas_;  // by first address
  std::set<uint32_t> held_;                 // streams
  Stream queueing_;
  std::vector<Queue> queues_;
  std::vector<std::shared_ptr<Record>> events_;  // null: never recorded
};

}  // namespace grapevine::testing
