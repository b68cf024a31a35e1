// DeviceLinks: how payloads travel between ranks on a device and ranks of other processes.
//
// In place, if the other process is on this host and both devices reach each other's memory. The
// block with the snapshots for other ranks is lent to that process once
// (kernels/memory/lent_snapshots.hpp), over a separate connection (transport/memory_line.hpp). A
// frame then names its slot, and the receiving rank reads the slot in its jump. By NCCL, if both
// processes ask for it (nccl_links.hpp). Otherwise, and for payloads outside that block, through
// the host's memory (device_dock.hpp).
//
//               a payload for it                  accepted
//   untried ---------------------> offered ----------------> in place
//      ^   no line is possible yet    | refused, ended          | the other end errs or ends
//      +--- the link to it ends ---- through the host's memory <+
//
// The lines of different nodes do not affect each other: a node has at most a quarter of the slots,
// all together at most half of them. If there is no slot for a node, it is sent copies.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/device/device_dock.hpp"
#include "actors/device/nccl_links.hpp"
#include "actors/settings/settings.hpp"
#include "actors/transport/link_transport.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

class DeviceLinks : public std::enable_shared_from_this<DeviceLinks> {
 public:
  DeviceLinks(std::shared_ptr<DeviceShare>, std::shared_ptr<DeviceDock>, DeviceLink,
              const std::shared_ptr<LinkTransport>&,
              std::function<void(const std::string& line)> say);
  ~DeviceLinks();
  /// Before serve(), for DeviceLink::nccl. Without it all payloads go through the host's memory.
  /// `self` and `largest` as in nccl_links.hpp.
  void use(std::shared_ptr<const Nccl>, const std::string& self, size_t largest);
  /// Before the first payload: sets the owner of the device, and the clock for NCCL.
  void serve(ToOwner to_owner, OwnerTime = {});

  /// As DeviceDock::copy_by.
  void copy_by(std::function<void(std::function<void()> task)> elsewhere) {
    dock_->copy_by(std::move(elsewhere));
  }

  // Any thread may call these.
  /// As LinkTransport::Leave and Land; the owner carries out both.
  void leave(const std::string& node, const FrameHeader&, Payload, bool is_spoiled,
             DeviceDock::Then);
  void land(Payload in_memory, DeviceDock::Then then) { dock_->land(std::move(in_memory), then); }
  void hear(const std::string& node, const NcclTalk&);
  /// As LinkEvents::lent and down.
  LineEvents lent(const std::string& node, const LentMemory&, std::shared_ptr<MemoryLine>);
  void down(const std::string& node);
  std::vector<DeviceEdge> edges() const;

 private:
  enum class Way : uint8_t { untried, offered, in_place, host };
  struct Lending;
  struct Borrowing;

  // Called by the owner.
  void leave_now(const std::string& node, const FrameHeader&, Payload, DeviceDock::Then);
  Lending* current(const std::string& node);
  bool has_room(const Lending&) const;
  void offer(const std::string& node);
  void lender_hears(uint64_t id, const LineNote&);
  void lending_ended(uint64_t id);
  void accept(uint64_t id, const std::string& node, const LentMemory&,
              const std::shared_ptr<MemoryLine>&);
  void borrower_hears(uint64_t id, const LineNote&);
  void end_borrowing(uint64_t id);

  void turn(const std::string& node, Way, const std::string& why);
  template <class Change>
  void note(const std::string& node, Change&& change);
  std::function<void(std::function<void(DeviceLinks&)>)> posting();

  const std::shared_ptr<DeviceShare> device_;
  const std::shared_ptr<DeviceDock> dock_;
  const DeviceLink choice_;
  const std::weak_ptr<LinkTransport> transport_;
  const std::function<void(const std::string&)> say_;
  ToOwner to_owner_;
  std::shared_ptr<NcclLinks> nccl_;  // used by the owner; null: NCCL is not used
  std::atomic<uint64_t> ids_{0};     // of lines

  // Used by the owner alone.
  std::shared_ptr<const Descriptor> exported_;  // of the block; null: not yet
  // Also those that are over, until they end.
  std::map<uint64_t, std::shared_ptr<Lending>> lendings_;
  std::map<uint64_t, std::shared_ptr<Borrowing>> borrowings_;

  struct Edge {
    Way way = Way::untried;
    DeviceEdge told;
  };
  mutable Mutex mutex_;
  std::map<std::string, Edge> edges_ GV_GUARDED_BY(mutex_);
};

}  // namespace grapevine
