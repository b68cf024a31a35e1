// Neighbour: a miniature of who owns a device and trades snapshots in place with another process of
// the same host.
//
// Its ranks average with the other end's. It lends its own snapshots, reads the other's where they
// lie, on two streams, and has one slot fewer than ranks. When the other end is gone it writes over
// all slots that are its own again: whoever still read one would be seen.
#pragma once
#include <map>
#include <vector>

#include "kernels/base/descriptor.hpp"
#include "kernels/memory/lent_snapshots.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/device/adversary.hpp"

namespace grapevine::testing {

struct Note {  // what crosses between two neighbours, in order
  enum class Kind { hello, ready, released, eof } kind = Kind::hello;
  std::shared_ptr<const Descriptor> memory = {};  // hello; null: it cannot be passed
  size_t rank = 0;      // ready
  uint64_t number = 0;  // ready: of the rank's exchange
  LentSlot lent = {};   // ready, released
};

class Neighbour {
 public:
  static constexpr size_t kRanks = 3, kSlots = kRanks - 1;
  static constexpr uint64_t kRounds = 3;  // of writing over all slots

  struct Outside {
    std::function<void(std::function<void()>)> later;  // a message to itself
    std::function<void(Note)> send;
    std::function<size_t(size_t)> any;                   // of n, one
    std::function<bool(const char*, Where)> leaves_out;  // a call that orders, as AdverseWorld's
  };

  Neighbour(Device&, Outside, size_t size, uint64_t exchanges);

  void start();
  void receive(Note);
  /// The link is given up, by an end that lives on.
  void cut();
  /// Lets all that is queued happen, then gives its memory back.
  void end();
  void vanish();  // its process was killed

  bool gone() const { return stage_ == Stage::gone; }
  bool has_failed() const { return failed_; }
  bool was_refused() const { return refused_; }  // the other's memory, or a message of either end
  uint64_t exchanges() const { return exchanges_; }
  size_t leases() const;  // that are out
  size_t borrowed() const { return borrower_ ? borrower_->borrowed() : 0; }
  uint64_t rewritten() const { return rewritten_; }  // slots, after the other's end

 private:
  enum class Stage { working, ending, gone };
  struct Rank {
    uint64_t number = 0;
    Lease sent;
    std::map<uint64_t, Lease> borrowed;  // by number
  };

  bool working() const { return stage_ == Stage::working; }
  bool ok(Fate);
  void fail();
  void again(std::function<void()> what);
  bool allocate();
  void read_by(Lease&, const Fence&, Where = Where::current());
  Vec vec(size_t k) const;
  bool write(Lease& slot);
  void exchange(size_t rank);
  void jump(size_t rank);
  bool compare(const Lease& sent, Lease& borrowed, Lease kept);
  void rewrite(uint64_t rounds);
  void finish_end();
  Execution rules() const { return {nullptr, &device_, rules_}; }
  size_t bytes() const { return size_ * sizeof(float); }

  Device& device_;
  Outside outside_;
  Fences fences_{device_};
  const size_t size_, stride_;
  const uint64_t wanted_exchanges_;
  Stage stage_ = Stage::working;
  bool failed_ = false, refused_ = false, alone_ = false, is_drained_ = false;
  Stream rules_, out_;
  Block arena_, exported_, kept_block_;
  std::unique_ptr<SnapshotPool> snapshots_, kept_;
  std::unique_ptr<SnapshotLender> lender_;
  std::unique_ptr<SnapshotBorrower> borrower_;
  std::vector<Rank> ranks_{kRanks};
  size_t left_to_end_ = 0;
  uint64_t exchanges_ = 0, rewritten_ = 0;
};

}  // namespace grapevine::testing
