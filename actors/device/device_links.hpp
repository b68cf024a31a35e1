// DeviceLinks: how payloads of ranks on a device reach ranks of other processes, and theirs these.
//
// In place, where the other process is of this host and both devices reach each other's memory: the
// block of what goes to other ranks is lent to it once (kernels/memory/lent_snapshots.hpp), by a
// line that both have to themselves (transport/memory_line.hpp); a frame then says which slot it
// means, and the rank over there reads it in its jump. By NCCL, where both ask for that
// (nccl_links.hpp). Else, and for what does not lie in that block, through the host's memory
// (device_dock.hpp).
//
//               a payload for it                  taken
//   untried ---------------------> offered ----------------> in place
//      ^   no line can be had yet     | refused, ended          | the other end errs or ends
//      +--- the link to it ends ----- by the host's memory <----+
//
// Whatever happens to one node's lines, the others' go on: a node has a quarter of the slots at
// most, all together half of them, and whoever is given none is sent copies.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/device/device_dock.hpp"
#include "actors/device/nccl_links.hpp"
#include "actors/settings/settings.hpp"
#include "actors/transport/link_transport.hpp"

namespace grapevine {

class DeviceLinks : public std::enable_shared_from_this<DeviceLinks> {
 public:
  DeviceLinks(std::shared_ptr<DeviceShare>, std::shared_ptr<DeviceDock>, DeviceLink,
              const std::shared_ptr<LinkTransport>&,
              std::function<void(const std::string& line)> say);
  ~DeviceLinks();
  /// Of DeviceLink::nccl, before serve(): without it all goes by the host's memory. `self` and
  /// `largest` as in nccl_links.hpp.
  void use(std::shared_ptr<const Nccl>, const std::string& self, size_t largest);
  /// Before the first payload: who owns the device, and the time of what goes by NCCL.
  void serve(ToOwner to_owner, OwnerTime = {});

  /// As DeviceDock::copy_by.
  void copy_by(std::function<void(std::function<void()> task)> elsewhere) {
    dock_->copy_by(std::move(elsewhere));
  }

  // Any thread.
  /// As LinkTransport::Leave and Land; both are done in the owner's time.
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

  // The owner's.
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
  std::shared_ptr<NcclLinks> nccl_;  // the owner's; null: nothing goes so
  std::atomic<uint64_t> ids_{0};     // of lines

  // The owner's.
  std::shared_ptr<const Descriptor> exported_;             // the block's; null: not yet
  std::map<uint64_t, std::shared_ptr<Lending>> lendings_;  // those that are over await their end
  std::map<uint64_t, std::shared_ptr<Borrowing>> borrowings_;

  struct Edge {
    Way way = Way::untried;
    DeviceEdge told;
  };
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, Edge> edges_;
};

}  // namespace grapevine
