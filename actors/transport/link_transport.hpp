// LinkTransport: delivers frames to ranks of this process into their mailboxes, and frames to other
// ranks over the links to their nodes.
//
// The roster tells which node has a rank. A received frame is delivered if its sender's rank
// belongs to that node and its receiver is here; otherwise it is dropped and counted. Any thread.
//
// The plan's link faults act here, on real frames. The sending node draws the fault of a frame
// once: loss, cut and one_way drop it, repeat sends it again, delay and bandwidth hold it before it
// leaves. The links themselves corrupt a payload, after its checksum. A frame to corrupt that has
// no payload, or stays in this process, is dropped, as the receiver would do. The receiving node
// draws nothing.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/transport/frame_fate.hpp"
#include "actors/transport/links.hpp"
#include "actors/transport/transport.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

/// The paths of payloads between the device here and another node.
struct DeviceEdge {
  std::string node;
  bool sends_in_place = false, receives_in_place = false;
  // A communicator is up; other payloads go through the host's memory.
  bool has_nccl = false;
  uint64_t lent = 0, borrowed = 0;  // payloads that were read in place
  uint64_t sent_by_nccl = 0, received_by_nccl = 0;
  uint64_t broken_by_nccl = 0;  // exchanges that broke off; their slots are written off
  std::string why, not_read;    // why through the host's memory, each way; empty: not, or not tried
};

class LinkTransport final : public Transport, public std::enable_shared_from_this<LinkTransport> {
 public:
  using Deliver = std::function<void(int to, Frame)>;
  struct Held {
    Frame frame;
    std::optional<uint64_t> spoiled_bit;
  };
  /// Calls pass_on with it at that time.
  using HoldUntil = std::function<void(double at, Held)>;
  struct Place {
    int rank = 0;
    std::string node;  // empty: here
  };
  struct Counts {
    uint64_t lost = 0;         // by faults of the plan
    uint64_t corrupt = 0;      // dropped here by corruptions of the plan
    uint64_t refused = 0;      // by a full queue, or no link
    uint64_t strangers = 0;    // arrived from a node that does not serve the sender's rank
    uint64_t misdirected = 0;  // arrived for a rank that is not here
  };

  LinkTransport(Deliver deliver, HoldUntil hold_until, uint64_t seed)
      : deliver_(std::move(deliver)), hold_until_(std::move(hold_until)), seed_(seed) {}

  /// Before this call, and after null, all frames to other nodes are lost. The links must outlive
  /// it.
  void use(Links* links) { links_ = links; }
  /// A payload leaves its device for a node: then(copy) is called once there is a copy to send; or
  /// never, if the frame goes another way or is lost.
  using Leave = std::function<void(const std::string& node, const FrameHeader&, Payload,
                                   bool is_spoiled, std::function<void(Payload)> then)>;
  /// A payload goes to the device: then(copy) is called once it is there.
  using Land = std::function<void(Payload, std::function<void(Payload)> then)>;
  using Edges = std::function<std::vector<DeviceEdge>()>;
  /// Call it before the first frame, if the ranks here are on a device.
  void carry_by(Leave leave, Land land, Edges edges) {
    leave_ = std::move(leave);
    land_ = std::move(land);
    edges_ = std::move(edges);
  }
  /// Messages of a node about NCCL. Set the receiver before the first frame. Without it the node is
  /// told that NCCL is not used.
  using Hear = std::function<void(const std::string& node, const NcclTalk&)>;
  void hear_by(Hear hear) { hear_ = std::move(hear); }
  void hear(const std::string& node, const NcclTalk&);
  /// False: as Links::send, or there are no links.
  bool talk(const std::string& node, const NcclTalk&);
  /// As Links::lend; null if there are no links.
  std::shared_ptr<MemoryLine> lend(const std::string& node, const LentMemory&, LineEvents);
  void place(std::vector<Place> places);
  void set_faults(std::vector<LinkFault>);

  uint64_t send(double now, const FrameHeader&, Lease payload) override;
  void receive(const std::string& node, Frame);
  /// Sends a frame that was held. False: the queue is full, or there is no link.
  bool pass_on(Held);

  Counts counts() const;
  std::vector<DeviceEdge> device_edges() const {
    return edges_ ? edges_() : std::vector<DeviceEdge>();
  }

 private:
  std::shared_ptr<const std::string> node_of(uint32_t rank) const;  // null: no node
  FrameFate fate_of(const FrameHeader&, double now);
  double held_s(const FrameFate&, const FrameHeader&, double now);
  bool put_on_link(const std::string& node, const FrameHeader&, Payload,
                   std::optional<uint64_t> spoiled_bit);

  Deliver deliver_;
  HoldUntil hold_until_;
  uint64_t seed_;
  Leave leave_;
  Land land_;
  Edges edges_;
  Hear hear_;
  std::atomic<Links*> links_ = nullptr;
  mutable SharedMutex mutex_;
  // By rank.
  std::unordered_map<uint32_t, std::shared_ptr<const std::string>> nodes_ GV_GUARDED_BY(mutex_);
  std::shared_ptr<const std::vector<LinkFault>> faults_ GV_GUARDED_BY(mutex_);  // null: none
  Mutex narrow_mutex_;
  NarrowLinks narrow_ GV_GUARDED_BY(narrow_mutex_);
  std::atomic<uint64_t> draws_ = 0, lost_ = 0, corrupt_ = 0, refused_ = 0, strangers_ = 0,
                        misdirected_ = 0;
};

}  // namespace grapevine
