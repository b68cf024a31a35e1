#include "tests/device/neighbour.hpp"

#include <algorithm>
#include <utility>

#include "kernels/memory/snapshot_pool.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine::testing {
namespace {

constexpr size_t kKept = 1;

}  // namespace

Neighbour::Neighbour(Device& device, Outside outside, size_t size, uint64_t exchanges)
    : device_(device),
      outside_(std::move(outside)),
      size_(size),
      stride_(SnapshotPool::bytes_for(size, DType::f32, 1)),
      wanted_exchanges_(exchanges) {
  device_.on_lost([this] { outside_.later([this] { fail(); }); });
}

bool Neighbour::ok(Fate fate) {
  if (fate == Fate::ok) return true;
  fail();
  return false;
}

void Neighbour::fail() {
  if (stage_ == Stage::gone) return;
  failed_ = true;
  vanish();
  outside_.send({Note::Kind::eof});
}

void Neighbour::vanish() {
  stage_ = Stage::gone;
  ranks_.assign(kRanks, {});
  lender_ = {};
  borrower_ = {};
}

size_t Neighbour::leases() const {
  return (snapshots_ ? snapshots_->in_use() : 0) + (kept_ ? kept_->in_use() : 0);
}

Vec Neighbour::vec(size_t k) const { return {arena_.data + k * stride_, size_, DType::f32}; }

void Neighbour::again(std::function<void()> what) {
  outside_.later([this, what = std::move(what)] {
    if (working()) what();
  });
}

void Neighbour::read_by(Lease& lease, const Fence& fence, Where where) {
  if (!outside_.leaves_out("read_by", where)) lease.read_by(fence);
}

bool Neighbour::allocate() {
  for (Stream* s : {&rules_, &out_})
    if (!ok(fences_.make_stream(Fences::Kind::shared, *s))) return false;
  const auto device_block = [&](size_t count, Block& out) {
    return ok(device_.allocate(count * stride_, Block::Kind::shared, out));
  };
  if (!device_block(2 * kRanks, arena_) || !device_block(kSlots, exported_) ||
      !device_block(kKept, kept_block_)) {
    return false;
  }
  snapshots_ = std::make_unique<SnapshotPool>(fences_, exported_, size_, DType::f32, kSlots);
  kept_ = std::make_unique<SnapshotPool>(fences_, kept_block_, size_, DType::f32, kKept);
  snapshots_->choose_by(outside_.any);
  lender_ = std::make_unique<SnapshotLender>(fences_, exported_, size_, DType::f32, outside_.later);
  borrower_ = std::make_unique<SnapshotBorrower>(
      device_, fences_, size_, DType::f32, outside_.later, [this](LentSlot lent) {
        outside_.send({Note::Kind::released, {}, 0, 0, lent});
      });
  return true;
}

void Neighbour::start() {
  if (!allocate()) return;
  for (size_t k = 0; k < 2 * kRanks; ++k) {
    const Access x[] = {{vec(k).data, bytes(), Access::Mode::writes}};
    const auto fill = [size = size_, k](void*, void* const* at) {
      for (size_t i = 0; i < size; ++i)
        static_cast<float*>(at[0])[i] = static_cast<float>(k + i % 7) * 0.125f;
    };
    if (!ok(device_.launch(rules_, x, fill))) return;
  }
  int descriptor = -1;
  if (ok(device_.share(exported_, descriptor)))
    outside_.send({Note::Kind::hello, std::make_shared<const Descriptor>(descriptor)});
}

void Neighbour::receive(Note note) {
  if (note.kind == Note::Kind::eof && lender_) lender_->ended();
  if (stage_ == Stage::gone || !lender_) return;
  switch (note.kind) {
    case Note::Kind::hello: {
      if (!working() || alone_) return;
      const Fate fate = borrower_->open(note.memory ? note.memory->fd() : -1, kSlots);
      if (fate == Fate::out_of_memory) {
        refused_ = true;
        return cut();
      }
      if (!ok(fate)) return;
      for (size_t rank = 0; rank < kRanks; ++rank)
        exchange(rank);
      return;
    }
    case Note::Kind::ready: {
      if (alone_) return;
      Lease& borrowed = ranks_[note.rank].borrowed[note.number];
      borrowed = borrower_->borrow(note.lent);
      refused_ = refused_ || !borrowed;
      return jump(note.rank);
    }
    case Note::Kind::released: refused_ = !lender_->released(note.lent) || refused_; return;
    case Note::Kind::eof: cut(); return rewrite(kRounds);
  }
}

// --- an exchange: a snapshot, which the other end reads in place; the jump, which reads the
// other's

void Neighbour::exchange(size_t rank) {
  Rank& me = ranks_[rank];
  if (!working() || alone_ || me.number == wanted_exchanges_) return;
  me.sent = snapshots_->take(rules_);
  if (!me.sent) return again([this, rank] { exchange(rank); });
  ++me.number;
  extrapolate(rules(), 0.25, vec(2 * rank), vec(2 * rank + 1), me.sent.writable());
  Fence taken;
  if (!ok(fences_.record(rules_, taken))) return;
  me.sent.set_ready(taken);
  lender_->lend(me.sent, [this, rank, number = me.number](LentSlot lent) {
    outside_.send({Note::Kind::ready, {}, rank, number, lent});
  });
  jump(rank);
}

void Neighbour::jump(size_t rank) {
  Rank& me = ranks_[rank];
  if (!working() || alone_ || !me.sent || me.borrowed.count(me.number) == 0) return;
  Lease kept = kept_->take(out_);
  if (!kept) return again([this, rank] { jump(rank); });
  Lease borrowed = std::move(me.borrowed.extract(me.number).mapped());
  if (!compare(me.sent, borrowed, std::move(kept))) return;
  mix_and_jump(rules(), 0.25, 0.5, 0.7, me.sent.vec(), borrowed.vec(), vec(2 * rank),
               vec(2 * rank + 1));
  Fence jumped;
  if (!ok(fences_.record(rules_, jumped))) return;
  read_by(borrowed, jumped);
  me.sent = {};  // read by the stream that writes it, and by out_, which is marked
  ++exchanges_;
  again([this, rank] { exchange(rank); });
}

/// Another stream reads both snapshots.
bool Neighbour::compare(const Lease& sent, Lease& borrowed, Lease kept) {
  if (!ok(fences_.wait(out_, sent.ready()))) return false;
  const Access both[] = {{sent.vec().data, bytes(), Access::Mode::reads},
                         {borrowed.vec().data, bytes(), Access::Mode::reads},
                         {kept.writable().data, bytes(), Access::Mode::writes}};
  const auto difference = [size = size_](void*, void* const* at) {
    for (size_t i = 0; i < size; ++i)
      static_cast<float*>(at[2])[i] =
          static_cast<const float*>(at[0])[i] - static_cast<const float*>(at[1])[i];
  };
  Fence compared;
  if (!ok(device_.launch(out_, both, difference)) || !ok(fences_.record(out_, compared)))
    return false;
  Lease own = sent;
  read_by(own, compared);
  read_by(borrowed, compared);
  return true;
}

// --- the end of the link, or of the work

void Neighbour::cut() {
  if (stage_ == Stage::gone || !lender_ || std::exchange(alone_, true)) return;
  ranks_.assign(kRanks, {});
  // While it stands the link says that the other's memory is being read.
  const auto close = [this] {
    if (stage_ == Stage::gone) return;
    outside_.send({Note::Kind::eof});
    is_drained_ = true;
    finish_end();
  };
  if (!outside_.leaves_out("drain", Where::current())) return borrower_->end(close);
  borrower_->end({});
  close();
}

void Neighbour::rewrite(uint64_t rounds) {
  if (!working() || rounds == 0) return;
  std::vector<Lease> slots;
  while (Lease slot = snapshots_->take(rules_)) {
    const Access whole[] = {{slot.vec().data, bytes(), Access::Mode::writes}};
    const auto fill = [size = size_](void*, void* const* at) {
      std::fill_n(static_cast<float*>(at[0]), size, 0.5f);
    };
    if (!ok(device_.launch(rules_, whole, fill))) return;
    slots.push_back(std::move(slot));
    ++rewritten_;
  }
  again([this, rounds] { rewrite(rounds - 1); });
}

void Neighbour::end() {
  if (!working()) return;
  stage_ = Stage::ending;
  cut();
  const Stream streams[] = {rules_, out_};
  left_to_end_ = std::size(streams);
  for (const Stream stream : streams) {
    Fence last;
    if (!ok(fences_.record(stream, last))) return;
    fences_.when(last, [this](Fate fate) {
      outside_.later([this, fate] {
        if (stage_ == Stage::gone || !ok(fate)) return;
        --left_to_end_;
        finish_end();
      });
    });
  }
}

void Neighbour::finish_end() {
  if (stage_ != Stage::ending || left_to_end_ > 0 || !is_drained_) return;
  for (const Block& block : {arena_, exported_, kept_block_})
    if (!ok(device_.free(block))) return;
  stage_ = Stage::gone;
}

}  // namespace grapevine::testing
