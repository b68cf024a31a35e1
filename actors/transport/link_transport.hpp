// LinkTransport: frames to ranks of this process go into their mailboxes, frames to the others over
// the links to their nodes.
//
// Which node serves a rank follows the roster. What arrives is delivered where the sender's rank is
// that node's and the receiver is here; the rest is dropped and counted. Any thread.
//
// The plan's link faults act here, on real frames. What they do to a frame is drawn once, by the
// node that sends it: loss, cut and one_way drop it, repeat sends it again, delay and bandwidth
// hold it before it leaves. A payload to be corrupted is spoiled by the links themselves, beneath
// their checksum; what has no payload, or stays in this process, is dropped, as the receiver's
// check would do. The node that receives draws nothing.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/transport/frame_fate.hpp"
#include "actors/transport/links.hpp"
#include "actors/transport/transport.hpp"

namespace grapevine {

class LinkTransport final : public Transport, public std::enable_shared_from_this<LinkTransport> {
 public:
  using Deliver = std::function<void(int to, Frame)>;
  struct Held {
    Frame frame;
    std::optional<uint64_t> spoiled_bit;
  };
  /// To be given back to pass_on then.
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

  /// Until then, and after null, everything to other nodes is lost. The links must outlive it.
  void use(Links* links) { links_ = links; }
  /// Makes a copy of a payload and calls then(copy) once it may be handed on.
  using Carry = std::function<void(Payload, std::function<void(Payload)> then)>;
  /// Before the first frame, where the ranks here live on a device: `down` for what leaves it for
  /// another process, `up` for what arrives.
  void carry_by(Carry down, Carry up) {
    down_ = std::move(down);
    up_ = std::move(up);
  }
  void place(std::vector<Place> places);
  void set_faults(std::vector<LinkFault>);

  uint64_t send(double now, const FrameHeader&, Lease payload) override;
  void receive(const std::string& node, Frame);
  /// A frame that was held. False: refused by a full queue, or no link.
  bool pass_on(Held);

  Counts counts() const;

 private:
  std::shared_ptr<const std::string> node_of(uint32_t rank) const;  // null: nobody's
  FrameFate fate_of(const FrameHeader&, double now);
  double held_s(const FrameFate&, const FrameHeader&, double now);
  bool put_on_link(const std::string& node, const FrameHeader&, Payload,
                   std::optional<uint64_t> spoiled_bit);

  Deliver deliver_;
  HoldUntil hold_until_;
  uint64_t seed_;
  Carry down_, up_;
  std::atomic<Links*> links_ = nullptr;
  mutable std::shared_mutex mutex_;                                         // guards what follows
  std::unordered_map<uint32_t, std::shared_ptr<const std::string>> nodes_;  // by rank
  std::shared_ptr<const std::vector<LinkFault>> faults_;                    // null: none
  std::mutex narrow_mutex_;                                                 // guards the next
  NarrowLinks narrow_;
  std::atomic<uint64_t> draws_ = 0, lost_ = 0, corrupt_ = 0, refused_ = 0, strangers_ = 0,
                        misdirected_ = 0;
};

}  // namespace grapevine
