// NcclLinks: how this node and each other node agree to send payloads between ranks on their
// devices by one NCCL communicator (kernels/gpu/nccl_edge.hpp). Experimental.
//
//   the node with the lower name                       the other one
//   a payload for it: makes an id, begins to connect
//   connect {id, NCCL's version}   --------------->    connects too, or
//                                  <---------------    end {why not}
//
//   either one, once both are connected                the other one
//   a payload; the turn of its device is free:
//   request {n, header, room}      --------------->    has its turn and memory for it:
//                                  <---------------    grant {n, header of the answer, if any}
//   begins n                                           begins n
//                                  <---------------    or decline {n}
//
// The node with the lower name uses odd numbers for its requests, the other one even numbers;
// numbers increase. If two requests cross, the one of the lower name counts, and the other node
// sends its payload as the answer if there is room.
//
// No node waits. A payload goes through the host's memory if it cannot be requested at once, if it
// is declined, or if its edge breaks, even after its start (a receiver that gets it twice drops
// one). A peer that does not answer a request may have started it; its edge counts as broken.
//
// While two nodes connect, for at most 10 s, their devices have no exchange, because NCCL allocates
// memory then.
//
// A link has only one edge, and all messages name the edge's number. If the edge breaks, or the
// other node sends a message out of order, the edge is abandoned, the other node is told, and all
// payloads between the two go through the host's memory until the link ends. The edges of other
// nodes are not affected.
//
// NCCL neither encrypts nor authenticates: any process that has the id may connect. The id is sent
// only on the control link and is used at once; members are trusted with it.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "actors/clocks/next_timer.hpp"
#include "actors/device/device_dock.hpp"
#include "actors/transport/link_transport.hpp"
#include "kernels/gpu/nccl.hpp"

namespace grapevine {

/// The clock of the owner of a device.
struct OwnerTime {
  std::function<double()> now_s;
  std::function<void(double at_s, std::function<void()>)> at;  // the owner calls it at that time
};

/// Only the owner of the device calls it, except the constructor and serve().
class NcclLinks : public std::enable_shared_from_this<NcclLinks> {
 public:
  struct Told {
    /// The counters and the state of the edge to a node.
    std::function<void(const std::string& node, const std::function<void(DeviceEdge&)>&)> note;
    std::function<void(const std::string& line)> say;
  };
  /// `self`: this node's name; no payload has more than `largest` bytes. Takes its streams from the
  /// device.
  NcclLinks(std::string self, size_t largest, std::shared_ptr<const Nccl>,
            std::shared_ptr<DeviceShare>, std::shared_ptr<DeviceDock>,
            const std::shared_ptr<LinkTransport>&, Told);
  /// Call it first.
  void serve(ToOwner, OwnerTime);
  ~NcclLinks();

  /// Calls then(copy) if the payload goes through the host's memory.
  void leave(const std::string& node, const FrameHeader&, Payload, DeviceDock::Then);
  void hear(const std::string& node, const NcclTalk&);
  void down(const std::string& node);

  size_t written_off() const { return edges_.written_off(); }  // exchanges, as NcclEdges

 private:
  struct Peer;

  void call(const std::string& node, Peer&);
  void wait_to_connect(const std::string& node, Peer&, int rank);
  void try_to_connect(const std::string& node, Peer&);
  bool request(const std::string& node, Peer&, const FrameHeader&, const Payload&,
               const DeviceDock::Then&);
  void heard(const std::string& node, Peer&, const NcclConnect&);
  void heard(const std::string& node, Peer&, const NcclEnd&);
  void heard(const std::string& node, Peer&, const NcclRequest&);
  void heard(const std::string& node, Peer&, const NcclGrant&);
  void heard(const std::string& node, Peer&, const NcclDecline&);
  void grant(const std::string& node, Peer&, const NcclRequest&);
  void begin(Peer&, uint64_t number, Lease room);
  void by_host(Peer&);
  void take(const std::string& node, const NcclNews&);
  void end(const std::string& node, Peer&, const std::string& why);
  void end(const std::string& node, Peer&, NcclEnd::Reason, const std::string& why);
  void break_off(const std::string& node, Peer&);

  Peer& peer(const std::string& node);
  bool take_turn(Peer&) const;
  template <class What>
  bool talk(const std::string& node, const Peer&, What);
  void tick();
  void arm();

  const std::string self_;
  const size_t largest_;
  const std::shared_ptr<const Nccl> nccl_;
  const std::shared_ptr<DeviceShare> device_;
  const std::shared_ptr<DeviceDock> dock_;
  const std::weak_ptr<LinkTransport> transport_;
  const Told told_;
  const std::shared_ptr<ToOwner> to_owner_;  // set by serve()
  OwnerTime time_;
  NcclEdges edges_;
  std::map<std::string, std::unique_ptr<Peer>> peers_;  // by node
  NextTimer timer_;
};

}  // namespace grapevine
