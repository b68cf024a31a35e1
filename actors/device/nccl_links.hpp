// NcclLinks: what a node agrees on with each other node, so that payloads of ranks on its device go
// to ranks on that one's by a communicator of NCCL that the two have to themselves
// (kernels/gpu/nccl_edge.hpp). Experimental, as that is.
//
//   the node of the lower name                         the other one
//   a payload for it: makes an id, begins to connect
//   connect {id, NCCL's version}   --------------->    connects too, or
//                                  <---------------    end {why not}
//
//   either one, once both are connected                the other one
//   a payload; the turn of its device is free:
//   request {n, header, room}      --------------->    has its turn and memory for it:
//                                  <---------------    grant {n, header of what comes back, if any}
//   begins n                                           begins n
//                                  <---------------    or decline {n}
//
// The lower name requests odd numbers, the other one even ones, increasing. Of two requests that
// cross the lower name's stands, and the other one's payload comes back in it where there is room.
//
// Nobody waits: a payload that cannot be requested at once goes by the host's memory, as does one
// that is declined, or whose edge breaks, once more where it had begun to go (who has it twice
// drops it). Who is asked and does not answer has broken the edge, for it may have begun.
//
// While two connect, 10 s at most, their devices have no exchange, for NCCL takes memory then.
//
// There is one edge in the life of a link, with a number that all messages name. When it breaks, or
// where the other node says what has no place, it is given up, the other node is told, and all
// payloads between the two go by the host's memory until the link ends. The edges of other nodes go
// on.
//
// NCCL neither encrypts what it sends nor knows whom it sends it to: who has the id may connect. An
// id goes along the control link alone, and is used as it comes: members are trusted with that.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "actors/device/device_dock.hpp"
#include "actors/transport/link_transport.hpp"
#include "kernels/gpu/nccl.hpp"

namespace grapevine {

/// The clock of whoever owns a device.
struct OwnerTime {
  std::function<double()> now_s;
  std::function<void(double at_s, std::function<void()>)> at;  // done then, by the owner
};

/// To be called by the owner of the device, but for the beginning.
class NcclLinks : public std::enable_shared_from_this<NcclLinks> {
 public:
  struct Told {
    /// Of what is counted, and said of the edge to a node.
    std::function<void(const std::string& node, const std::function<void(DeviceEdge&)>&)> note;
    std::function<void(const std::string& line)> say;
  };
  /// `self`: this node's name; no payload has more than `largest` bytes. Takes its streams.
  NcclLinks(std::string self, size_t largest, std::shared_ptr<const Nccl>,
            std::shared_ptr<DeviceShare>, std::shared_ptr<DeviceDock>,
            const std::shared_ptr<LinkTransport>&, Told);
  /// Before all else.
  void serve(ToOwner, OwnerTime);
  ~NcclLinks();

  /// Then(copy) is called where the payload goes by the host's memory.
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
  double armed_s_;
};

}  // namespace grapevine
