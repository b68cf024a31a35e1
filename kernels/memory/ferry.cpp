#include "kernels/memory/ferry.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

Ferry::Ferry(Device& device, Fences& fences, Streams streams, const Block& pinned,
             size_t piece_bytes, Await await, HostCopy host_copy)
    : device_(device),
      fences_(fences),
      streams_(streams),
      piece_bytes_(piece_bytes),
      slots_(fences, pinned, piece_bytes, DType::bytes, kSlots),
      await_(std::move(await)),
      host_copy_(std::move(host_copy)) {
  if (host_copy_) return;
  host_copy_ = [](void* to, const void* from, size_t bytes, const std::function<void()>& then) {
    std::memcpy(to, from, bytes);
    then();
  };
}

size_t Ferry::bytes_for(size_t piece_bytes) {
  return SnapshotPool::bytes_for(piece_bytes, DType::bytes, kSlots);
}

void Ferry::up(ConstVec host, Vec there, std::function<void()> done, Until until) {
  GV_CHECK(host.bytes() == there.bytes());
  auto* first = static_cast<std::byte*>(const_cast<void*>(host.data));  // it is only read
  begin({true, first, static_cast<std::byte*>(there.data), host.bytes(), nullptr}, std::move(done),
        until);
}

void Ferry::down(ConstVec there, Vec host, std::function<void()> done) {
  GV_CHECK(host.bytes() == there.bytes());
  auto* first = static_cast<std::byte*>(const_cast<void*>(there.data));  // it is only read
  begin({false, static_cast<std::byte*>(host.data), first, host.bytes(), nullptr}, std::move(done),
        Until::there);
}

void Ferry::begin(Trip trip, std::function<void()> done, Until until) {
  if (trip.left == 0) return done();
  const size_t pieces = (trip.left + piece_bytes_ - 1) / piece_bytes_;
  trip.end = std::make_shared<End>(End{pieces, std::move(done), until});
  trips_.push_back(std::move(trip));
  go_on();
}

void Ferry::go_on() {
  if (std::exchange(going_, true)) return;  // the loop below is running
  while (!trips_.empty() && carry(trips_.front()))
    if (trips_.front().left == 0) trips_.pop_front();
  going_ = false;
}

bool Ferry::carry(Trip& trip) {
  Lease slot = slots_.take_host();
  if (!slot) return false;
  const auto piece = std::make_shared<Piece>(
      Piece{std::move(slot), trip.host, trip.there, std::min(trip.left, piece_bytes_), trip.end});
  trip.host += piece->bytes;
  trip.there += piece->bytes;
  trip.left -= piece->bytes;
  if (!trip.is_up) return down(piece);
  host_copy_(piece->slot.writable().data, piece->host, piece->bytes, [this, piece] {
    up(piece);
    go_on();
  });
  return true;
}

bool Ferry::queue(Piece& piece, bool is_up, Fence& out) {
  void* const pinned = piece.slot.writable().data;
  const Stream stream = is_up ? streams_.up : streams_.down;
  void* const to = is_up ? piece.there : pinned;
  const void* const from = is_up ? pinned : piece.there;
  if (device_.copy(stream, to, from, piece.bytes) != Fate::ok) return false;
  if (fences_.record(stream, out) != Fate::ok) return false;
  piece.slot.set_ready(out);
  return true;
}

void Ferry::up(const PiecePointer& piece) {
  device_.touch({piece->slot.writable().data, piece->bytes, Access::Mode::writes});
  Fence copied;
  if (!queue(*piece, true, copied)) return;
  const bool is_told_later = piece->end->until == Until::there;
  await_(copied, [this, piece, is_told_later] {
    piece->slot.set_seen();
    piece->slot = {};
    if (is_told_later) end(*piece);
    go_on();
  });
  if (!is_told_later) end(*piece);
}

bool Ferry::down(const PiecePointer& piece) {
  Fence copied;
  if (!queue(*piece, false, copied)) return false;
  await_(copied, [this, piece] {
    piece->slot.set_seen();
    const void* const pinned = piece->slot.vec().data;
    device_.touch({pinned, piece->bytes, Access::Mode::reads});
    host_copy_(piece->host, pinned, piece->bytes, [this, piece] {
      piece->slot = {};
      end(*piece);
      go_on();
    });
  });
  return true;
}

void Ferry::end(Piece& piece) {
  if (--piece.end->missing == 0) std::exchange(piece.end->done, {})();
}

}  // namespace grapevine
