#include "tests/device/owner.hpp"

#include <cstring>
#include <utility>

#include "kernels/memory/snapshot_pool.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine::testing {
namespace {

enum Which : size_t { kX, kTwin, kMomentum, kCount };
constexpr GradientStep kStep{0.05, 0.9, true, 0};

// Slots of each pool: less than a rank's worth of each for all ranks.
constexpr size_t kCopies = Owner::kRanks, kGradients = 2, kSnapshots = Owner::kRanks - 1;
constexpr size_t kReceived = 2, kStaged = 2;

}  // namespace

Owner::Owner(Device& device, Outside outside, size_t size, uint64_t gradients, uint64_t exchanges)
    : device_(device),
      outside_(std::move(outside)),
      size_(size),
      stride_(SnapshotPool::bytes_for(size, DType::f32, 1)),
      wanted_gradients_(gradients),
      wanted_exchanges_(exchanges) {
  device_.on_lost([this] { outside_.later([this] { fail(); }); });
}

bool Owner::ok(Fate fate) {
  if (fate == Fate::ok) return true;
  fail();
  return false;
}

/// Its ranks are gone with the device; whoever waits for them is told.
void Owner::fail() {
  if (stage_ == Stage::gone) return;
  failed_ = true;
  vanish();
  outside_.send({Parcel::Kind::down});
}

void Owner::vanish() {
  stage_ = Stage::gone;
  drop_leases();
}

void Owner::drop_leases() {
  for (Rank& rank : ranks_)
    rank.sent = {};
}

size_t Owner::leases() const {
  size_t out = 0;
  for (const auto* pool : {&copies_, &computed_, &snapshots_, &received_, &outgoing_, &incoming_})
    out += *pool ? (*pool)->in_use() : 0;
  return out;
}

Vec Owner::vec(size_t rank, size_t which) const {
  return {arena_.data + (kCount * rank + which) * stride_, size_, DType::f32};
}

void Owner::again(std::function<void()> what) {
  outside_.later([this, what = std::move(what)] {
    if (working()) what();
  });
}

/// A call of the device becomes a message to this owner.
void Owner::when(const Fence& fence, std::function<void()> then, Where where) {
  ++asked_;
  fences_.when(
      fence,
      [this, then = std::move(then)](Fate fate) {
        ++told_;
        outside_.later([this, fate, then] {
          if (stage_ != Stage::gone && ok(fate)) then();
        });
      },
      where);
}

void Owner::read_by(Lease& lease, const Fence& fence, Where where) {
  if (!outside_.leaves_out("read_by", where)) lease.read_by(fence);
}

// --- the start: all memory, then the ranks' values, one after the other

std::unique_ptr<SnapshotPool> Owner::pool_of(const Block& block, size_t first, size_t count) {
  const Block part{block.data + first * stride_, count * stride_, block.kind};
  auto pool = std::make_unique<SnapshotPool>(fences_, part, size_, DType::f32, count);
  pool->choose_by(outside_.any);
  return pool;
}

bool Owner::allocate() {
  constexpr size_t kSlots = kCopies + kGradients + kSnapshots + kReceived;
  for (Stream* s : {&rules_, &out_, &in_})
    if (!ok(fences_.make_stream(Fences::Kind::shared, *s))) return false;
  for (Stream& lane : lanes_)
    if (!ok(fences_.make_stream(Fences::Kind::lane, lane))) return false;
  if (!ok(device_.allocate(kCount * kRanks * stride_, Block::Kind::device, arena_)) ||
      !ok(device_.allocate(kSlots * stride_, Block::Kind::device, slots_)) ||
      !ok(device_.allocate(2 * kStaged * stride_, Block::Kind::pinned, pinned_))) {
    return false;
  }
  size_t first = 0;
  const auto next = [&](size_t count) {
    return pool_of(slots_, std::exchange(first, first + count), count);
  };
  copies_ = next(kCopies);
  computed_ = next(kGradients);
  snapshots_ = next(kSnapshots);
  received_ = next(kReceived);
  outgoing_ = pool_of(pinned_, 0, kStaged);
  incoming_ = pool_of(pinned_, kStaged, kStaged);
  return true;
}

void Owner::start() {
  if (allocate()) upload(0);
}

void Owner::upload(size_t rank) {
  if (rank == kRanks) {
    for (size_t r = 0; r < kRanks; ++r) {
      fetch(r);
      exchange(r);
    }
    return;
  }
  Lease in = incoming_->take_host();
  if (!in) return again([this, rank] { upload(rank); });
  const Vec values = in.writable();
  for (size_t i = 0; i < size_; ++i)
    values.as<float>()[i] = static_cast<float>(rank + 1) * static_cast<float>(i % 7) * 0.125f;
  device_.touch({values.data, bytes(), Access::Mode::writes});
  for (const Which which : {kX, kTwin, kMomentum})
    if (!ok(device_.copy(in_, vec(rank, which).data, values.data, bytes()))) return;
  Fence uploaded;
  if (!ok(fences_.record(in_, uploaded)) || !ok(fences_.wait(rules_, uploaded))) return;
  read_by(in, uploaded);
  upload(rank + 1);
}

// --- a gradient: a copy of x, the work on it, the step, which writes the next copy

void Owner::fetch(size_t rank) {
  Lease copy = copies_->take(rules_);
  if (!copy || !working()) return;
  extrapolate(rules(), 0.125, vec(rank, kX), vec(rank, kTwin), copy.writable());
  Fence written;
  if (!ok(fences_.record(rules_, written))) return;
  copy.set_ready(written);
  compute(rank, std::move(copy));
}

void Owner::compute(size_t rank, Lease copy) {
  const Stream lane = lanes_[rank % kLanes];
  Lease gradient = computed_->take(lane);
  if (!gradient) return again([this, rank, copy] { compute(rank, copy); });
  if (!ok(fences_.wait(lane, copy.ready()))) return;
  const Access accesses[] = {{copy.vec().data, bytes(), Access::Mode::reads},
                             {gradient.vec().data, bytes(), Access::Mode::writes}};
  const auto work = [size = size_](void*, void* const* at) {
    for (size_t i = 0; i < size; ++i)
      static_cast<float*>(at[1])[i] = 0.1f * static_cast<const float*>(at[0])[i] + 0.01f;
  };
  Fence computed;
  if (!ok(device_.launch(lane, accesses, work)) || !ok(fences_.record(lane, computed))) return;
  gradient.set_ready(computed);
  // A lane's copy is released when the host knows that it has been read. If its slot waited for the
  // gradient, the next pass of all ranks would wait for it, too.
  if (outside_.leaves_out("keep", Where::current())) copy = {};
  when(computed, [this, rank, gradient, copy] { step(rank, gradient); });
}

/// Queued when the gradient is there, never behind it: all ranks use the same stream.
void Owner::step(size_t rank, Lease gradient) {
  if (!working()) return;
  Lease copy = copies_->take(rules_);
  if (!copy) return again([this, rank, gradient] { step(rank, gradient); });
  mix_and_step(rules(), 0.125, kStep, gradient.vec(), vec(rank, kMomentum), vec(rank, kX),
               vec(rank, kTwin), copy.writable());
  Fence stepped;
  if (!ok(fences_.record(rules_, stepped))) return;
  copy.set_ready(stepped);
  read_by(gradient, stepped);
  gradient = {};
  ++gradients_;
  if (++ranks_[rank].gradients < wanted_gradients_) compute(rank, std::move(copy));
}

// --- an exchange: a snapshot, its way out, the other's way in, the jump

void Owner::exchange(size_t rank) {
  Rank& me = ranks_[rank];
  if (!working() || alone_ || me.number == wanted_exchanges_) return;
  me.sent = snapshots_->take(rules_);
  if (!me.sent) return again([this, rank] { exchange(rank); });
  ++me.number;
  me.is_leaving = me.has_left = me.has_jumped = false;
  extrapolate(rules(), 0.25, vec(rank, kX), vec(rank, kTwin), me.sent.writable());
  Fence taken;
  if (!ok(fences_.record(rules_, taken))) return;
  me.sent.set_ready(taken);
  copy_out(rank);
}

void Owner::copy_out(size_t rank) {
  if (!working() || alone_) return;
  Rank& me = ranks_[rank];
  Lease out = outgoing_->take(out_);
  if (!out) return again([this, rank] { copy_out(rank); });
  if (!ok(fences_.wait(out_, me.sent.ready()))) return;
  if (!ok(device_.copy(out_, out.writable().data, me.sent.vec().data, bytes()))) return;
  Fence copied;
  if (!ok(fences_.record(out_, copied))) return;
  out.set_ready(copied);
  read_by(me.sent, copied);
  me.is_leaving = true;
  when(copied, [this, rank, out] { leave(rank, out); });
}

void Owner::leave(size_t rank, Lease out) {
  if (!working() || alone_) return;
  out.set_seen();
  const auto* first = static_cast<const std::byte*>(out.vec().data);
  device_.touch({first, bytes(), Access::Mode::reads});
  outside_.send({Parcel::Kind::snapshot, rank, ranks_[rank].number, {first, first + bytes()}});
  ranks_[rank].has_left = true;
  finish_exchange(rank);
}

void Owner::receive(Parcel parcel) {
  if (!working() || alone_) return;
  if (parcel.kind == Parcel::Kind::down) {
    alone_ = true;
    return drop_leases();
  }
  const Rank& me = ranks_[parcel.rank];
  const bool is_expected = me.is_leaving && me.number == parcel.number && !me.has_jumped;
  Lease in = is_expected ? incoming_->take_host() : Lease();
  Lease received = in ? received_->take(in_) : Lease();
  if (!received) return again([this, parcel] { receive(parcel); });
  jump(parcel, std::move(in), std::move(received));
}

void Owner::jump(const Parcel& parcel, Lease in, Lease received) {
  Rank& me = ranks_[parcel.rank];
  std::memcpy(in.writable().data, parcel.payload.data(), bytes());
  device_.touch({in.vec().data, bytes(), Access::Mode::writes});
  if (!ok(device_.copy(in_, received.writable().data, in.vec().data, bytes()))) return;
  Fence copied, jumped;
  if (!ok(fences_.record(in_, copied))) return;
  received.set_ready(copied);
  read_by(in, copied);
  if (!ok(fences_.wait(rules_, copied))) return;
  mix_and_jump(rules(), 0.25, 0.5, 0.7, me.sent.vec(), received.vec(), vec(parcel.rank, kX),
               vec(parcel.rank, kTwin));
  if (!ok(fences_.record(rules_, jumped))) return;
  read_by(received, jumped);
  me.sent = {};  // read by the stream that writes it, and by the copy, which is marked
  me.has_jumped = true;
  finish_exchange(parcel.rank);
}

void Owner::finish_exchange(size_t rank) {
  Rank& me = ranks_[rank];
  if (!me.has_left || !me.has_jumped) return;
  ++exchanges_;
  again([this, rank] { exchange(rank); });
}

void Owner::end() {
  if (!working()) return;
  stage_ = Stage::ending;
  drop_leases();
  outside_.send({Parcel::Kind::down});
  const Stream streams[] = {rules_, out_, in_, lanes_[0], lanes_[1]};
  left_to_end_ = std::size(streams);
  for (const Stream stream : streams) {
    Fence last;
    if (!ok(fences_.record(stream, last))) return;
    when(last, [this] {
      if (--left_to_end_ > 0) return;
      for (const Block& block : {arena_, slots_, pinned_})
        if (!ok(device_.free(block))) return;
      stage_ = Stage::gone;
    });
  }
}

}  // namespace grapevine::testing
