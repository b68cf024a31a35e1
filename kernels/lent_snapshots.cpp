#include "kernels/lent_snapshots.hpp"

#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "kernels/snapshot_pool.hpp"

namespace grapevine {

// --- the lender

struct SnapshotLender::Core {
  struct Lent {
    uint64_t number = 0;  // 0: the borrower has not been told yet
    Lease lease;
  };

  Fences& fences;
  const std::byte* first;
  size_t stride;
  uint32_t slots;
  ToOwner to_owner;
  bool ended = false;
  uint64_t numbers = 0;  // that were given
  std::map<uint32_t, Lent> lent = {};

  uint32_t slot_of(const Lease& lease) const {
    const auto* const data = static_cast<const std::byte*>(lease.vec().data);
    const auto offset = static_cast<size_t>(data - first);
    GV_CHECK(offset % stride == 0u);
    GV_CHECK(offset / stride < slots);
    return static_cast<uint32_t>(offset / stride);
  }

  void is_there(uint32_t slot, Fate fate, const std::function<void(LentSlot)>& ready) {
    const auto found = lent.find(slot);
    if (found == lent.end()) return;  // the end has come first
    if (fate != Fate::ok) {
      lent.erase(found);
      return;
    }
    found->second.number = ++numbers;
    ready({slot, numbers});
  }
};

SnapshotLender::SnapshotLender(Fences& fences, const Block& block, size_t size, DType dtype,
                               ToOwner to_owner) {
  const size_t stride = SnapshotPool::bytes_for(size, dtype, 1);
  core_ = std::make_shared<Core>(Core{.fences = fences,
                                      .first = block.data,
                                      .stride = stride,
                                      .slots = static_cast<uint32_t>(block.bytes / stride),
                                      .to_owner = std::move(to_owner)});
}

SnapshotLender::~SnapshotLender() { ended(); }

void SnapshotLender::lend(const Lease& lease, std::function<void(LentSlot)> ready) {
  if (core_->ended) return;
  const uint32_t slot = core_->slot_of(lease);
  GV_CHECK(core_->lent.count(slot) == 0u);
  core_->lent[slot].lease = lease;
  const auto tell = [core = std::weak_ptr(core_), slot, ready = std::move(ready)](Fate fate) {
    if (const auto here = core.lock()) here->is_there(slot, fate, ready);
  };
  if (!lease.ready()) return core_->to_owner([tell] { tell(Fate::ok); });
  core_->fences.when(lease.ready(), [to_owner = core_->to_owner, tell](Fate fate) {
    to_owner([tell, fate] { tell(fate); });
  });
}

bool SnapshotLender::released(const LentSlot& said) {
  const auto found = core_->lent.find(said.slot);
  if (said.number == 0 || found == core_->lent.end()) return false;
  if (found->second.number != said.number) return false;
  core_->lent.erase(found);
  return true;
}

void SnapshotLender::ended() {
  core_->ended = true;
  core_->lent.clear();
}

size_t SnapshotLender::lent() const { return core_->lent.size(); }

// --- the borrower, of which leases that are out keep what they need

struct SnapshotBorrower::Core : std::enable_shared_from_this<Core> {
  Core(Device& device, Fences& fences, size_t size, DType dtype, ToOwner to_owner,
       std::function<void(LentSlot)> released)
      : device(device),
        fences(fences),
        size(size),
        dtype(dtype),
        to_owner(std::move(to_owner)),
        released(std::move(released)) {}

  Device& device;
  Fences& fences;
  const size_t size;
  const DType dtype;
  const ToOwner to_owner;
  const std::function<void(LentSlot)> released;
  Block block;  // no data: not open
  uint32_t slots = 0;
  uint64_t last = 0;           // number that was borrowed
  std::set<uint32_t> reading;  // slots that are out, or still being read
  bool ended = false, lost = false;
  std::function<void()> then;

  /// The last lease has gone; its readers may still be at work.
  void let_go(const LentSlot& lent, const std::vector<Fence>& readers) {
    if (readers.empty()) return through(lent);
    const auto left = std::make_shared<size_t>(readers.size());  // the owner's alone
    for (const Fence& reader : readers) {
      fences.when(reader, [core = shared_from_this(), lent, left](Fate fate) {
        core->to_owner([core, lent, left, fate] {
          core->lost = core->lost || fate != Fate::ok;
          if (--*left == 0) core->through(lent);
        });
      });
    }
  }

  void through(const LentSlot& lent) {
    reading.erase(lent.slot);
    if (ended) return give_back();
    if (!lost) released(lent);
  }

  void give_back() {
    if (!reading.empty()) return;
    if (block.data != nullptr) static_cast<void>(device.free(std::exchange(block, {})));
    if (then) to_owner(std::exchange(then, {}));
  }
};

SnapshotBorrower::SnapshotBorrower(Device& device, Fences& fences, size_t size, DType dtype,
                                   ToOwner to_owner, std::function<void(LentSlot)> released)
    : core_(std::make_shared<Core>(device, fences, size, dtype, std::move(to_owner),
                                   std::move(released))) {}

SnapshotBorrower::~SnapshotBorrower() {
  if (!core_->ended) end({});
}

Fate SnapshotBorrower::open(int descriptor, uint32_t slots) {
  GV_CHECK((core_->block.data == nullptr));
  const size_t stride = SnapshotPool::bytes_for(core_->size, core_->dtype, 1);
  if (core_->ended || slots == 0 || slots > std::numeric_limits<size_t>::max() / stride)
    return Fate::out_of_memory;
  const Fate fate = core_->device.open(descriptor, slots * stride, core_->block);
  if (fate == Fate::ok) core_->slots = slots;
  return fate;
}

Lease SnapshotBorrower::borrow(const LentSlot& lent) {
  Core& core = *core_;
  if (core.ended || lent.slot >= core.slots || lent.number <= core.last) return {};
  if (!core.reading.insert(lent.slot).second) return {};
  core.last = lent.number;
  const size_t stride = SnapshotPool::bytes_for(core.size, core.dtype, 1);
  const ConstVec slot{core.block.data + lent.slot * stride, core.size, core.dtype};
  return Lease::of_device(slot, [core = core_, lent](std::vector<Fence> readers) {
    core->to_owner([core, lent, readers = std::move(readers)] { core->let_go(lent, readers); });
  });
}

void SnapshotBorrower::end(std::function<void()> then) {
  GV_CHECK((!core_->ended));
  core_->ended = true;
  core_->then = std::move(then);
  core_->give_back();
}

size_t SnapshotBorrower::borrowed() const { return core_->reading.size(); }

}  // namespace grapevine
