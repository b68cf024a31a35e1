// Arrivals: the memory for payloads that come over links, in bounded pools. If a pool is empty, the
// lease is empty and the payload is discarded. One thread uses it; any thread may use the leases.
//
// Collective rounds keep many small parts, in slots of an eighth. A discarded parcel is not
// requested again at once, so parcels have separate pools that rounds and exchanges cannot empty:
// one for each node, so that no node can take another's slots.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "kernels/memory/snapshot_pool.hpp"
#include "messages/codec.hpp"

namespace grapevine {

class Arrivals {
 public:
  static constexpr uint64_t kPart = 8;
  static constexpr size_t kParcelsOfANode = 8;

  /// `payload_bytes`: of the largest payload that the links accept. `frames`, `parts`: slots of the
  /// two pools.
  Arrivals(uint64_t payload_bytes, size_t frames, size_t parts)
      : payload_bytes_(payload_bytes),
        frames_(payload_bytes, DType::bytes, frames),
        parts_(payload_bytes / kPart, DType::bytes, parts) {}

  Lease of_frame(const FrameHeader& h) {
    return (payload_bytes(h) <= payload_bytes_ / kPart ? parts_ : frames_).take();
  }

  Lease of_parcel(const std::string& node) {
    auto found = parcels_.find(node);
    if (found == parcels_.end()) {
      std::erase_if(parcels_, [](const auto& p) { return p.second->in_use() == 0; });
      found = parcels_
                  .emplace(node, std::make_unique<SnapshotPool>(payload_bytes_, DType::bytes,
                                                                kParcelsOfANode))
                  .first;
    }
    return found->second->take();
  }

 private:
  uint64_t payload_bytes_;
  SnapshotPool frames_, parts_;
  std::map<std::string, std::unique_ptr<SnapshotPool>> parcels_;
};

}  // namespace grapevine
