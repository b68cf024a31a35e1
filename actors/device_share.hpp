// DeviceShare: what a state actor and the lanes of its ranks have of a device: streams, and all of
// their memory, taken at the start; nothing is allocated later.
#pragma once
#include <memory>
#include <vector>

#include "kernels/ferry.hpp"
#include "kernels/result.hpp"
#include "kernels/workspace.hpp"

namespace grapevine {

struct DeviceSizes {
  size_t memory_bytes = 0;    // of vectors and of slots that stay on the device
  size_t gradient_size = 0;   // elements of one gradient
  DType dtype = DType::f32;   // its type
  size_t gradients = 0;       // that are computed, or wait to be taken, at once
  size_t askings = 0;         // as in workspace.hpp
  size_t piece_bytes = 4096;  // as in ferry.hpp
  size_t lanes = 1;
};

class DeviceShare {
 public:
  /// Error (user): the device has too little memory, or is lost.
  static Result<std::shared_ptr<DeviceShare>> make(Device&, const DeviceSizes&);
  /// Waits for what is in flight.
  ~DeviceShare();
  DeviceShare(const DeviceShare&) = delete;

  Device& device() { return device_; }
  Fences& fences() { return fences_; }
  Workspace& workspace() { return *workspace_; }
  /// Of the rules.
  Execution execution() { return {nullptr, &device_, rules_, workspace_.get()}; }
  /// In the workspace, for good. Too little left is std::bad_alloc.
  std::unique_ptr<SnapshotPool> make_pool(size_t size, DType, size_t capacity);
  Stream rules() const { return rules_; }  // of all passes and of what is rare
  const std::vector<Stream>& lanes() const { return lanes_; }
  /// Slots that a lane writes; beside each gradient the loss, in pinned memory.
  SnapshotPool& gradients() { return *gradients_; }
  SnapshotPool& losses() { return *losses_; }
  std::unique_ptr<Ferry> make_ferry(Ferry::Await);
  /// As SnapshotPool::choose_by, of all pools.
  void choose_by(std::function<size_t(size_t n)>);

 private:
  explicit DeviceShare(Device&);
  Fate allocate(const DeviceSizes&);
  Fate block(size_t bytes, Block::Kind, Block&);

  Device& device_;
  Fences fences_;
  Stream rules_;
  std::vector<Stream> lanes_;
  std::vector<Block> blocks_;
  Block staging_;
  size_t piece_bytes_ = 0;
  std::function<size_t(size_t n)> choose_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<SnapshotPool> gradients_, losses_;
};

}  // namespace grapevine
