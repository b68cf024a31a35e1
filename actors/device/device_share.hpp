// DeviceShare: the streams and the memory of a device that a state actor and the lanes of its ranks
// use. All memory is allocated at the start.
#pragma once
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/device/silence_watch.hpp"
#include "kernels/base/result.hpp"
#include "kernels/memory/ferry.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "kernels/passes/workspace.hpp"

namespace grapevine {

struct DeviceSizes {
  size_t rank_bytes = 0;           // of all ranks: x, x~, momentum, data of edges
  size_t state_bytes = 0;          // of the state actor
  size_t copy_bytes = 0;           // of the copies of x for gradients
  size_t exchange_bytes = 0;       // of messages between ranks
  size_t lent_bytes = 0;           // of messages that other processes may read in place
  size_t gradient_size = 0;        // elements of one gradient
  DType dtype = DType::f32;        // its type
  size_t gradients = 0;            // being computed or waiting to be taken, at the same time
  size_t askings = 0;              // as in workspace.hpp
  size_t piece_bytes = 4096;       // as in ferry.hpp
  size_t dock_piece_bytes = 4096;  // of the dock's ferry
  size_t lanes = 1;

  size_t gradient_bytes() const { return SnapshotPool::bytes_for(gradient_size, dtype, gradients); }
  size_t memory_bytes() const {
    return rank_bytes + state_bytes + copy_bytes + exchange_bytes + lent_bytes;
  }
  /// "17.5 GB (ranks 8.6, copies 2.9, exchanges 5.7, gradients 0.4)"
  std::string text() const;
};

class DeviceShare {
 public:
  /// Error (user): the device has too little memory, or is lost.
  static Result<std::shared_ptr<DeviceShare>> make(Device&, const DeviceSizes&);
  /// Waits for work in flight, unless the device is lost.
  ~DeviceShare();
  DeviceShare(const DeviceShare&) = delete;

  Device& device() { return device_; }
  Fences& fences() { return fences_; }
  SilenceWatch& silence() { return silence_; }
  /// set_lost() when its owner learns that the device is lost. Any thread.
  void set_lost() { lost_ = true; }
  bool is_lost() const { return lost_; }
  Workspace& workspace() { return *workspace_; }
  /// For the rules.
  Execution execution() { return {nullptr, &device_, rules_, workspace_.get()}; }
  /// A pool in the workspace, never freed. Throws std::bad_alloc if too little is left.
  std::unique_ptr<SnapshotPool> make_pool(size_t size, DType, size_t capacity);
  /// A pool for snapshots for other ranks: in the block that other processes may read in place, if
  /// that block has its size and no pool yet. Only the owner calls this and the following
  /// functions.
  std::unique_ptr<SnapshotPool> make_lent_pool(size_t size, DType, size_t capacity);
  /// That pool's block and slots; no slots: there is none.
  struct LentPool {
    Block block;
    size_t slot_bytes = 0;
    uint32_t slots = 0;
    bool holds(const Lease& lease) const {
      const auto* const at = static_cast<const std::byte*>(lease.vec().data);
      return slots > 0 && at >= block.data && at < block.data + block.bytes;
    }
  };
  const LentPool& lent() const { return lent_pool_; }
  /// Keeps `what` alive until all work in flight has happened; released before the memory is freed.
  void keep(std::shared_ptr<void> what) { kept_.insert(std::move(what)); }
  void let_go(const std::shared_ptr<void>& what) { kept_.erase(what); }

  Stream rules() const { return rules_; }  // for all passes and for rare work
  Ferry::Streams dock_streams() const { return dock_streams_; }
  const std::vector<Stream>& lanes() const { return lanes_; }
  /// Slots that a lane writes: a gradient each, and its loss in pinned memory.
  SnapshotPool& gradients() { return *gradients_; }
  SnapshotPool& losses() { return *losses_; }
  std::unique_ptr<Ferry> make_ferry(Ferry::Await);
  /// For payloads that leave or arrive. They do not wait for other copies.
  std::unique_ptr<Ferry> make_dock_ferry(Ferry::Await, Ferry::HostCopy);
  /// Keeps `device` alive as long as any code may still call it.
  void hold(std::shared_ptr<const void> device) { held_ = std::move(device); }
  /// SnapshotPool::choose_by, for all pools.
  void choose_by(std::function<size_t(size_t n)>);

 private:
  explicit DeviceShare(Device&);
  Fate allocate(const DeviceSizes&);
  Fate block(size_t bytes, Block::Kind, Block&);

  std::shared_ptr<const void> held_;  // freed last
  Device& device_;
  Fences fences_;
  SilenceWatch silence_;
  std::atomic<bool> lost_{false};
  Stream rules_;
  std::vector<Stream> lanes_;
  Ferry::Streams dock_streams_;
  std::vector<Block> blocks_;
  Block staging_, dock_, lent_;
  LentPool lent_pool_;
  std::set<std::shared_ptr<void>> kept_;
  size_t piece_bytes_ = 0, dock_piece_bytes_ = 0;
  std::function<size_t(size_t n)> choose_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<SnapshotPool> gradients_, losses_;
};

}  // namespace grapevine
