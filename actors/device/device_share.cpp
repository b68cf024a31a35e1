#include "actors/device/device_share.hpp"

#include <fmt/core.h>

#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

std::string DeviceSizes::text() const {
  const bool large = memory_bytes() + gradient_bytes() >= size_t{1} << 30;
  const auto shown = [large](size_t bytes) {
    return fmt::format("{:.1f}", static_cast<double>(bytes) * (large ? 1e-9 : 1e-6));
  };
  return fmt::format("{} {} (ranks {}, copies {}, exchanges {}, gradients {})",
                     shown(memory_bytes() + gradient_bytes()), large ? "GB" : "MB",
                     shown(rank_bytes + state_bytes), shown(copy_bytes),
                     shown(exchange_bytes + lent_bytes), shown(gradient_bytes()));
}

DeviceShare::DeviceShare(Device& device) : device_(device), fences_(device) {}

Result<std::shared_ptr<DeviceShare>> DeviceShare::make(Device& device, const DeviceSizes& sizes) {
  std::shared_ptr<DeviceShare> share(new DeviceShare(device));
  const Fate fate = share->allocate(sizes);
  if (fate == Fate::ok) return share;
  if (fate == Fate::lost) return user_error("the device is lost");
  return user_error("the device has too little memory: " + sizes.text() + " are needed");
}

DeviceShare::~DeviceShare() {
  static_cast<void>(device_.drain());
  kept_.clear();
  for (const Block& block : blocks_)
    static_cast<void>(device_.free(block));  // lost: there is nothing to free
  device_.on_lost({});
}

std::unique_ptr<SnapshotPool> DeviceShare::make_pool(size_t size, DType dtype, size_t capacity) {
  const size_t bytes = SnapshotPool::bytes_for(size, dtype, capacity);
  const Block block{static_cast<std::byte*>(workspace_->take(bytes)), bytes, Block::Kind::device};
  auto pool = std::make_unique<SnapshotPool>(fences_, block, size, dtype, capacity);
  pool->choose_by(choose_);
  return pool;
}

std::unique_ptr<SnapshotPool> DeviceShare::make_lent_pool(size_t size, DType dtype,
                                                          size_t capacity) {
  const size_t bytes = SnapshotPool::bytes_for(size, dtype, capacity);
  if (lent_pool_.slots > 0 || bytes == 0 || lent_.bytes != bytes)
    return make_pool(size, dtype, capacity);
  lent_pool_ = {lent_, size * size_of(dtype), static_cast<uint32_t>(capacity)};
  auto pool = std::make_unique<SnapshotPool>(fences_, lent_, size, dtype, capacity);
  pool->choose_by(choose_);
  return pool;
}

void DeviceShare::choose_by(std::function<size_t(size_t n)> choose) {
  choose_ = std::move(choose);
  gradients_->choose_by(choose_);
}

std::unique_ptr<Ferry> DeviceShare::make_ferry(Ferry::Await await) {
  return std::make_unique<Ferry>(device_, fences_, Ferry::Streams{rules_, rules_}, staging_,
                                 piece_bytes_, std::move(await));
}

std::unique_ptr<Ferry> DeviceShare::make_dock_ferry(Ferry::Await await, Ferry::HostCopy host_copy) {
  return std::make_unique<Ferry>(device_, fences_, dock_streams_, dock_, dock_piece_bytes_,
                                 std::move(await), std::move(host_copy));
}

Fate DeviceShare::block(size_t bytes, Block::Kind kind, Block& out) {
  Block made;
  const Fate fate = device_.allocate(bytes, kind, made);
  if (fate != Fate::ok) return fate;
  blocks_.push_back(out = made);
  return fate;
}

Fate DeviceShare::allocate(const DeviceSizes& sizes) {
  Block memory, numbers, gradients, losses;
  Fate lent = Fate::out_of_memory;
  if (sizes.lent_bytes > 0) lent = block(sizes.lent_bytes, Block::Kind::shared, lent_);
  if (lent == Fate::lost) return lent;
  // If the block cannot be shared, it is part of the other memory, and links go through the host's
  // memory.
  const size_t memory_bytes = sizes.memory_bytes() - lent_.bytes;
  const size_t loss_bytes = SnapshotPool::bytes_for(1, DType::f64, sizes.gradients);
  const auto all = [](std::initializer_list<Fate> fates) {
    for (const Fate fate : fates)
      if (fate != Fate::ok) return fate;
    return Fate::ok;
  };
  const Fate blocks =
      all({block(memory_bytes, Block::Kind::device, memory),
           block(sizes.gradient_bytes(), Block::Kind::device, gradients),
           block(Workspace::bytes_for(sizes.askings), Block::Kind::pinned, numbers),
           block(loss_bytes, Block::Kind::pinned, losses),
           block(Ferry::bytes_for(sizes.piece_bytes), Block::Kind::pinned, staging_),
           block(Ferry::bytes_for(sizes.dock_piece_bytes), Block::Kind::pinned, dock_)});
  if (blocks != Fate::ok) return blocks;
  Fate streams = fences_.make_stream(Fences::Kind::shared, rules_);
  lanes_.resize(sizes.lanes);
  for (Stream& lane : lanes_)
    streams = all({streams, fences_.make_stream(Fences::Kind::lane, lane)});
  for (Stream* const way : {&dock_streams_.up, &dock_streams_.down})
    streams = all({streams, fences_.make_stream(Fences::Kind::shared, *way)});
  if (streams != Fate::ok) return streams;
  piece_bytes_ = sizes.piece_bytes;
  dock_piece_bytes_ = sizes.dock_piece_bytes;
  workspace_ =
      std::make_unique<Workspace>(device_, fences_, rules_, memory, numbers, sizes.askings);
  gradients_ = std::make_unique<SnapshotPool>(fences_, gradients, sizes.gradient_size, sizes.dtype,
                                              sizes.gradients);
  losses_ = std::make_unique<SnapshotPool>(fences_, losses, 1, DType::f64, sizes.gradients);
  return Fate::ok;
}

}  // namespace grapevine
