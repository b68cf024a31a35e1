#include "kernels/memory/ferry.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

Ferry::Ferry(Device& device, Fences& fences, Stream stream, const Block& pinned, size_t piece_bytes,
             Await await)
    : device_(device),
      fences_(fences),
      stream_(stream),
      piece_bytes_(piece_bytes),
      slots_(fences, pinned, piece_bytes, DType::bytes, kSlots),
      await_(std::move(await)) {}

size_t Ferry::bytes_for(size_t piece_bytes) {
  return SnapshotPool::bytes_for(piece_bytes, DType::bytes, kSlots);
}

void Ferry::up(ConstVec host, Vec there, std::function<void()> done) {
  GV_CHECK(host.bytes() == there.bytes());
  auto* first = static_cast<std::byte*>(const_cast<void*>(host.data));  // only read
  begin({true, first, static_cast<std::byte*>(there.data), host.bytes(), std::move(done)});
}

void Ferry::down(ConstVec there, Vec host, std::function<void()> done) {
  GV_CHECK(host.bytes() == there.bytes());
  auto* first = static_cast<std::byte*>(const_cast<void*>(there.data));  // only read
  begin({false, static_cast<std::byte*>(host.data), first, host.bytes(), std::move(done)});
}

void Ferry::begin(Trip trip) {
  if (trip.left == 0) return trip.done();
  trip.missing = std::make_shared<size_t>((trip.left + piece_bytes_ - 1) / piece_bytes_);
  trips_.push_back(std::move(trip));
  go_on();
}

void Ferry::go_on() {
  if (std::exchange(going_, true)) return;  // the loop below is at it
  while (!trips_.empty() && carry(trips_.front())) {
    if (trips_.front().left > 0) continue;
    const Trip through = std::move(trips_.front());
    trips_.pop_front();
    if (through.is_up) through.done();
  }
  going_ = false;
}

bool Ferry::carry(Trip& trip) {
  Lease slot = slots_.take_host();
  if (!slot) return false;
  const size_t bytes = std::min(trip.left, piece_bytes_);
  auto* const pinned = static_cast<std::byte*>(slot.writable().data);
  if (trip.is_up) {
    std::memcpy(pinned, trip.host, bytes);
    device_.touch({pinned, bytes, Access::Mode::writes});
  }
  std::byte* const to = trip.is_up ? trip.there : pinned;
  const std::byte* const from = trip.is_up ? pinned : trip.there;
  Fence copied;
  if (device_.copy(stream_, to, from, bytes) != Fate::ok) return false;
  if (fences_.record(stream_, copied) != Fate::ok) return false;
  slot.set_ready(copied);
  auto* const host = trip.host;
  trip.host += bytes;
  trip.there += bytes;
  trip.left -= bytes;
  await_(copied, [this, slot, host, bytes, is_up = trip.is_up, missing = trip.missing,
                  done = trip.is_up ? std::function<void()>() : trip.done]() mutable {
    slot.set_seen();
    if (!is_up) {
      device_.touch({slot.vec().data, bytes, Access::Mode::reads});
      std::memcpy(host, slot.vec().data, bytes);
    }
    slot = {};
    if (--*missing == 0 && done) done();
    go_on();
  });
  return true;
}

}  // namespace grapevine
