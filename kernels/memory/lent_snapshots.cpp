#include "kernels/memory/lent_snapshots.hpp"

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

// --- the lender

struct SnapshotLender::Core {
  struct Lent {
    uint32_t slot = 0;
    Lease lease;
  };

  Fences& fences;
  const std::byte* first;
  size_t stride;
  uint32_t slots;
  ToOwner to_owner;
  bool ended = false;
  std::optional<Stream> written_on = {};
  uint64_t numbers = 0, waits = 0;       // the last ones given
  std::map<uint64_t, Lent> untold = {};  // by wait: the borrower does not know it yet
  std::map<uint64_t, Lent> lent = {};    // by number

  uint32_t slot_of(const Lease& lease) const {
    const auto* const data = static_cast<const std::byte*>(lease.vec().data);
    const auto offset = static_cast<size_t>(data - first);
    GV_CHECK(offset % stride == 0u);
    GV_CHECK(offset / stride < slots);
    return static_cast<uint32_t>(offset / stride);
  }

  void is_there(uint64_t wait, Fate fate, const std::function<void(LentSlot)>& ready) {
    auto found = untold.extract(wait);
    if (found.empty() || fate != Fate::ok) return;  // the end came first
    const uint32_t slot = found.mapped().slot;
    lent[++numbers] = std::move(found.mapped());
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

void SnapshotLender::written_on(Stream stream) { core_->written_on = stream; }

void SnapshotLender::lend(const Lease& lease, std::function<void(LentSlot)> ready) {
  if (core_->ended) return;
  Fence written = lease.ready();
  if (core_->written_on && core_->fences.record(*core_->written_on, written) != Fate::ok) return;
  const uint64_t wait = ++core_->waits;
  core_->untold[wait] = {core_->slot_of(lease), lease};
  const auto tell = [core = std::weak_ptr(core_), wait, ready = std::move(ready)](Fate fate) {
    if (const auto here = core.lock()) here->is_there(wait, fate, ready);
  };
  if (!written) return core_->to_owner([tell] { tell(Fate::ok); });
  core_->fences.when(written, [to_owner = core_->to_owner, tell](Fate fate) {
    to_owner([tell, fate] { tell(fate); });
  });
}

bool SnapshotLender::released(const LentSlot& said) {
  const auto found = core_->lent.find(said.number);
  if (found == core_->lent.end() || found->second.slot != said.slot) return false;
  core_->lent.erase(found);
  return true;
}

void SnapshotLender::ended() {
  core_->ended = true;
  core_->untold.clear();
  core_->lent.clear();
}

size_t SnapshotLender::lent() const { return core_->untold.size() + core_->lent.size(); }

// --- the borrower; leases keep its core alive

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
  std::function<void(LentSlot)> released;
  std::optional<Stream> read_on;
  Block block;  // no data: not open
  uint32_t slots = 0;
  uint64_t last = 0;           // the last number borrowed
  std::set<uint64_t> reading;  // loans with a lease or a running reader
  bool ended = false, lost = false;
  std::function<void()> then;

  /// The last lease has gone; its readers may still run.
  void let_go(const LentSlot& lent, std::vector<Fence> readers) {
    if (Fence all; read_on) {
      if (fences.record(*read_on, all) == Fate::ok)
        readers.push_back(std::move(all));
      else
        lost = true;
    }
    if (readers.empty()) return through(lent);
    const auto left = std::make_shared<size_t>(readers.size());  // used by the owner alone
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
    reading.erase(lent.number);
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

void SnapshotBorrower::read_on(Stream stream) { core_->read_on = stream; }

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
  if (core.reading.size() >= kMost) return {};
  core.reading.insert(lent.number);
  core.last = lent.number;
  const size_t stride = SnapshotPool::bytes_for(core.size, core.dtype, 1);
  const ConstVec slot{core.block.data + lent.slot * stride, core.size, core.dtype};
  return Lease::of_device(slot, [core = core_, lent](std::vector<Fence> readers) {
    core->to_owner([core, lent, readers = std::move(readers)]() mutable {
      core->let_go(lent, std::move(readers));
    });
  });
}

void SnapshotBorrower::end(std::function<void()> then) {
  GV_CHECK((!core_->ended));
  core_->ended = true;
  core_->released = {};
  core_->then = std::move(then);
  core_->give_back();
}

void SnapshotBorrower::abandon() {
  core_->ended = true;
  core_->released = {};
  core_->then = {};
  core_->reading.clear();
  core_->give_back();
}

size_t SnapshotBorrower::borrowed() const { return core_->reading.size(); }

}  // namespace grapevine
