#include "kernels/base/mutex.hpp"
#include "kernels/memory/snapshot_pool.hpp"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "kernels/memory/shared_memory.hpp"

namespace grapevine {

// A leased slot keeps its home alive. A free slot belongs to its home and has no pointer to it, so
// there is no cycle.
struct SnapshotSlot {
  SnapshotSlot(size_t size, DType dtype) : size(size), dtype(dtype) {}
  SnapshotSlot(size_t size, DType dtype, void* given, bool is_on_device)
      : size(size), dtype(dtype), given(given), is_on_device(is_on_device) {}
  SnapshotSlot(ConstVec lent, bool is_on_device, std::function<void(std::vector<Fence>)> released)
      : size(lent.size),
        dtype(lent.dtype),
        lent(lent.data),
        released(std::move(released)),
        is_on_device(is_on_device) {}

  ~SnapshotSlot() { drop_memory(); }

  bool has_memory() const { return shared != nullptr || buffer; }
  size_t bytes() const { return std::max<size_t>(1, size * size_of(dtype)); }
  /// If the system grants no shared memory, a plain buffer is used.
  void make_memory(bool share, const Pinner& pinner) {
    if (share) shared = SharedMemory::make(bytes());
    if (shared == nullptr) buffer = Buffer(size, dtype);
    pin_first(bytes(), pinner);
  }
  bool pin_first(size_t count, const Pinner& pinner) {
    if (mapped != nullptr) {  // whole: leases on it come and go at the same time
      const Access memory{mapped->data(), mapped->bytes(), Access::Mode::reads};
      return mapped->pin().cover(memory, memory.bytes, pinner);
    }
    if (!has_memory()) return is_pinned();
    return pin.cover({view().data, bytes(), Access::Mode::updates}, count, pinner);
  }
  bool is_pinned() const {
    return given != nullptr ? !is_on_device : has_memory() && pin.covers(bytes());
  }
  void drop_memory() {
    pin.drop();
    shared = {};
    buffer = Buffer();
    retired = false;
  }
  ConstVec view() const {
    const void* plain = buffer ? buffer.vec().data : given != nullptr ? given : lent;
    return {shared != nullptr ? shared->data() : plain, size, dtype};
  }

  size_t size;
  DType dtype;
  // The memory is `buffer`, `shared`, `given` or `lent`.
  Buffer buffer;
  std::shared_ptr<SharedMemory> shared;
  Pin pin;                                           // of these two
  void* given = nullptr;                             // a part of the pool's block
  const void* lent = nullptr;                        // memory of another owner
  std::shared_ptr<const SharedMemory> mapped;        // of another process: where `lent` is
  std::function<void(std::vector<Fence>)> released;  // for `lent`
  bool is_on_device = false;
  Fence ready;
  std::vector<Fence> readers;  // at most one per stream
  // The fences that the last writer's stream has waited for. The next writer waits for them, too,
  // until the slot is known to have been written after them.
  std::vector<Fence> before;
  std::atomic<bool> retired{false};
  double phase = 0;
  std::atomic<size_t> leases{0};
  std::shared_ptr<void> home;
  void (*give_back)(SnapshotSlot*) = nullptr;
};

namespace {
/// At most one per stream: the later one covers the other.
void add(std::vector<Fence>& fences, Fence fence) {
  if (!fence) return;
  std::erase_if(fences, [&](const Fence& known) { return Fences::same_stream(known, fence); });
  fences.push_back(std::move(fence));
}
}  // namespace

struct SnapshotPool::Shared {
  size_t size;
  DType dtype;
  size_t capacity;
  bool share;
  Pinner pinner;
  mutable Mutex mutex;
  std::vector<std::unique_ptr<SnapshotSlot>> slots GV_GUARDED_BY(mutex);  // every slot ever made
  // A stack: the last slot returned is still in the cache.
  std::vector<SnapshotSlot*> free GV_GUARDED_BY(mutex);
  Fences* fences = nullptr;              // for slots in a block
  std::function<size_t(size_t)> choose;  // for tests

  SnapshotSlot* pop(size_t place) GV_REQUIRES(mutex) {
    SnapshotSlot* const slot = free[place];
    free.erase(free.begin() + static_cast<std::ptrdiff_t>(place));
    return slot;
  }

  static void give_back(SnapshotSlot* slot) {
    if (slot->retired) slot->drop_memory();
    const auto home = std::static_pointer_cast<Shared>(std::move(slot->home));  // destroyed last
    const Lock lock(home->mutex);
    home->free.push_back(slot);
  }
};

Lease::Lease(const Lease& other) : slot_(other.slot_) {
  if (slot_ != nullptr) slot_->leases.fetch_add(1, std::memory_order_relaxed);
}

Lease::Lease(Lease&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}

Lease& Lease::operator=(Lease other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

Lease::~Lease() {
  if (slot_ == nullptr) return;
  // acq_rel: all reading through other leases happens before the slot's next writer.
  if (slot_->leases.fetch_sub(1, std::memory_order_acq_rel) == 1) slot_->give_back(slot_);
}

ConstVec Lease::vec() const {
  GV_CHECK(slot_ != nullptr);
  GV_CHECK((slot_->is_on_device || slot_->ready == nullptr));
  return slot_->view();
}

Vec Lease::writable() {
  GV_CHECK(slot_ != nullptr);
  GV_CHECK(slot_->leases.load(std::memory_order_acquire) == 1u);
  GV_CHECK(slot_->lent == nullptr);
  if (slot_->given != nullptr) return {slot_->given, slot_->size, slot_->dtype};
  return slot_->shared != nullptr ? Vec(slot_->shared->data(), slot_->size, slot_->dtype)
                                  : slot_->buffer.vec();
}

double Lease::phase() const {
  GV_CHECK(slot_ != nullptr);
  return slot_->phase;
}

void Lease::set_phase(double phase) {
  GV_CHECK(slot_ != nullptr);
  GV_CHECK(slot_->leases.load(std::memory_order_acquire) == 1u);
  slot_->phase = phase;
}

Lease Lease::lent(ConstVec memory, bool is_on_device,
                  std::function<void(std::vector<Fence>)> released) {
  auto* slot = new SnapshotSlot(memory, is_on_device, std::move(released));
  slot->leases = 1;
  slot->give_back = [](SnapshotSlot* last) {
    const std::unique_ptr<SnapshotSlot> gone(last);
    gone->released(std::move(gone->readers));
  };
  return Lease(slot);
}

Lease Lease::of(ConstVec memory, std::function<void()> released) {
  return lent(memory, false, [released = std::move(released)](const auto&) { released(); });
}

Lease Lease::of(std::shared_ptr<const SharedMemory> memory, size_t bytes,
                std::function<void()> released) {
  GV_CHECK(bytes <= memory->bytes());
  Lease lease = of({memory->data(), bytes, DType::bytes}, std::move(released));
  lease.slot_->mapped = std::move(memory);
  return lease;
}

Lease Lease::of_device(ConstVec memory, std::function<void(std::vector<Fence>)> released) {
  return lent(memory, true, std::move(released));
}

bool Lease::on_device() const {
  GV_CHECK(slot_ != nullptr);
  return slot_->is_on_device;
}

bool Lease::is_pinned() const {
  GV_CHECK(slot_ != nullptr);
  return slot_->is_pinned();
}

bool Lease::pin(size_t bytes, const Pinner& pinner) {
  GV_CHECK(slot_ != nullptr);
  return slot_->pin_first(bytes, pinner);
}

const Fence& Lease::ready() const {
  GV_CHECK(slot_ != nullptr);
  return slot_->ready;
}

void Lease::set_ready(Fence fence) {
  GV_CHECK(slot_ != nullptr);
  GV_CHECK(slot_->leases.load(std::memory_order_acquire) == 1u);
  slot_->ready = std::move(fence);
  slot_->before.clear();
}

void Lease::set_seen() {
  GV_CHECK(slot_ != nullptr);
  slot_->ready = {};
}

void Lease::read_by(Fence fence) {
  GV_CHECK(slot_ != nullptr);
  GV_CHECK((slot_->given != nullptr || slot_->is_on_device));
  add(slot_->readers, std::move(fence));
}

const SharedMemory* Lease::shared() const {
  GV_CHECK(slot_ != nullptr);
  return slot_->shared.get();
}

void Lease::retire() {
  GV_CHECK(slot_ != nullptr);
  if (slot_->shared != nullptr) slot_->retired = true;
}

SnapshotPool::SnapshotPool(size_t size, DType dtype, size_t capacity, Memory memory, Pinner pinner)
    : shared_(std::make_shared<Shared>()) {
  shared_->pinner = std::move(pinner);
  shared_->size = size;
  shared_->dtype = dtype;
  shared_->capacity = capacity;
  shared_->share = memory == Memory::shared;
}

namespace {
/// The distance in bytes between the starts of two slots of a block.
size_t stride_of(size_t size, DType dtype) {
  constexpr size_t kApart = 256;
  return std::max<size_t>(1, (size * size_of(dtype) + kApart - 1) / kApart) * kApart;
}
}  // namespace

size_t SnapshotPool::bytes_for(size_t size, DType dtype, size_t capacity) {
  return capacity * stride_of(size, dtype);
}

SnapshotPool::SnapshotPool(Fences& fences, const Block& block, size_t size, DType dtype,
                           size_t capacity)
    : SnapshotPool(size, dtype, capacity) {
  GV_CHECK(bytes_for(size, dtype, capacity) <= block.bytes);
  shared_->fences = &fences;
  for (size_t k = capacity; k-- > 0;) {
    shared_->slots.push_back(std::make_unique<SnapshotSlot>(
        size, dtype, block.data + k * stride_of(size, dtype), block.kind != Block::Kind::pinned));
    shared_->free.push_back(shared_->slots.back().get());
  }
}

SnapshotPool::~SnapshotPool() = default;

void SnapshotPool::choose_by(std::function<size_t(size_t)> choose) {
  shared_->choose = std::move(choose);
}

Lease SnapshotPool::take(Stream writer, Where where) {
  GV_CHECK((shared_->fences != nullptr));
  SnapshotSlot* slot = nullptr;
  {
    const Lock lock(shared_->mutex);
    const size_t free = shared_->free.size();
    if (free == 0) return {};
    slot = shared_->pop(shared_->choose ? shared_->choose(free) : free - 1);
  }
  Lease lease = lend(slot);
  add(slot->before, std::exchange(slot->ready, {}));
  for (Fence& reader : std::exchange(slot->readers, {}))
    add(slot->before, std::move(reader));
  for (const Fence& fence : slot->before)
    if (shared_->fences->wait(writer, fence, where) != Fate::ok) return {};
  return lease;
}

Lease SnapshotPool::take_host(Where where) {
  GV_CHECK((shared_->fences != nullptr));
  SnapshotSlot* slot = nullptr;
  {
    const Lock lock(shared_->mutex);
    const auto is_through = [&](const Fence& fence) {
      return shared_->fences->query(fence, where) == Fate::ok;
    };
    for (size_t k = shared_->free.size(); k-- > 0 && slot == nullptr;) {
      const SnapshotSlot& s = *shared_->free[k];
      if (is_through(s.ready) && std::all_of(s.readers.begin(), s.readers.end(), is_through) &&
          std::all_of(s.before.begin(), s.before.end(), is_through))
        slot = shared_->pop(k);
    }
  }
  if (slot == nullptr) return {};
  GV_CHECK((!slot->is_on_device));
  slot->ready = {};
  slot->readers.clear();
  slot->before.clear();
  return lend(slot);
}

Lease SnapshotPool::lend(SnapshotSlot* slot) {
  slot->home = shared_;
  slot->give_back = &Shared::give_back;
  slot->phase = 0;
  slot->leases.store(1, std::memory_order_relaxed);  // the lock orders it after the last lease
  return Lease(slot);
}

Lease SnapshotPool::take() {
  GV_CHECK((shared_->fences == nullptr));
  SnapshotSlot* slot = nullptr;
  {
    const Lock lock(shared_->mutex);
    if (!shared_->free.empty()) {
      slot = shared_->free.back();
      shared_->free.pop_back();
    } else if (shared_->slots.size() < shared_->capacity) {
      shared_->slots.push_back(std::make_unique<SnapshotSlot>(shared_->size, shared_->dtype));
      shared_->free.reserve(shared_->slots.capacity());  // so that giving back cannot throw
      slot = shared_->slots.back().get();
    } else {
      return {};
    }
  }
  Lease lease = lend(slot);  // if there is no memory, its destructor gives the slot back
  if (!slot->has_memory()) slot->make_memory(shared_->share, shared_->pinner);
  return lease;
}

size_t SnapshotPool::in_use() const {
  const Lock lock(shared_->mutex);
  return shared_->slots.size() - shared_->free.size();
}

size_t SnapshotPool::capacity() const { return shared_->capacity; }

}  // namespace grapevine
