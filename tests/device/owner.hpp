// Owner: a miniature of who owns a device: what it queues, what it waits for, and what it hands on.
//
// Its ranks trade snapshots with the other end's through pinned memory, and compute gradients on
// two lanes meanwhile. Never blocks. Its pools have fewer slots than there is use for and give out
// any that is free, so that every call that orders something is needed somewhere: order_test.cpp
// leaves them out one by one.
#pragma once
#include <atomic>
#include <optional>
#include <vector>

#include "kernels/memory/snapshot_pool.hpp"
#include "tests/device/adversary.hpp"

namespace grapevine::testing {

struct Parcel {  // what crosses between two owners
  enum class Kind { snapshot, down } kind = Kind::snapshot;
  size_t rank = 0;
  uint64_t number = 0;  // of the exchange
  std::vector<std::byte> payload = {};
};

class Owner {
 public:
  static constexpr size_t kRanks = 3, kLanes = 2;

  struct Outside {
    std::function<void(std::function<void()>)> later;  // a message to itself
    std::function<void(Parcel)> send;
    std::function<size_t(size_t)> any;                   // of n, one
    std::function<bool(const char*, Where)> leaves_out;  // a call that orders, as AdverseWorld's
  };

  /// Of each rank: how many gradients and exchanges.
  Owner(Device&, Outside, size_t size, uint64_t gradients, uint64_t exchanges);

  void start();
  void receive(Parcel);
  /// Lets all that is queued happen, then gives its memory back.
  void end();
  void vanish();  // its process was killed

  bool gone() const { return stage_ == Stage::gone; }
  bool has_failed() const { return failed_; }
  uint64_t gradients() const { return gradients_; }
  uint64_t exchanges() const { return exchanges_; }
  uint64_t untold() const { return asked_ - told_; }
  size_t leases() const;  // that are out
  size_t events() const { return fences_.events(); }

 private:
  enum class Stage { working, ending, gone };
  struct Rank {
    uint64_t gradients = 0, number = 0;
    bool is_leaving = false, has_left = false, has_jumped = false;  // of its exchange
    Lease sent;
  };

  bool working() const { return stage_ == Stage::working; }
  bool ok(Fate);
  void fail();
  void drop_leases();
  void again(std::function<void()> what);
  bool allocate();
  std::unique_ptr<SnapshotPool> pool_of(const Block&, size_t first, size_t count);
  void upload(size_t rank);
  void when(const Fence&, std::function<void()> then, Where = Where::current());
  void read_by(Lease&, const Fence&, Where = Where::current());
  void fetch(size_t rank);
  void compute(size_t rank, Lease copy);
  void step(size_t rank, Lease gradient);
  void exchange(size_t rank);
  void copy_out(size_t rank);
  void leave(size_t rank, Lease out);
  void jump(const Parcel&, Lease in, Lease received);
  void finish_exchange(size_t rank);
  Vec vec(size_t rank, size_t which) const;
  Execution rules() const { return {nullptr, &device_, rules_}; }
  size_t bytes() const { return size_ * sizeof(float); }

  Device& device_;
  Outside outside_;
  Fences fences_{device_};
  const size_t size_, stride_;
  const uint64_t wanted_gradients_, wanted_exchanges_;
  Stage stage_ = Stage::working;
  bool failed_ = false, alone_ = false;
  Stream rules_, out_, in_, lanes_[kLanes];
  Block arena_, slots_, pinned_;
  std::unique_ptr<SnapshotPool> copies_, computed_, snapshots_, received_, outgoing_, incoming_;
  std::vector<Rank> ranks_{kRanks};
  size_t left_to_end_ = 0;
  uint64_t gradients_ = 0, exchanges_ = 0, asked_ = 0;
  std::atomic<uint64_t> told_{0};  // by threads of the device
};

}  // namespace grapevine::testing
