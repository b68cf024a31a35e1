// LinkTransport: frames to ranks of this process go into their mailboxes, frames to the others over
// the links to their nodes.
//
// Which node serves a rank follows the roster. What arrives is delivered where the sender's rank is
// that node's and the receiver is here; the rest is dropped and counted. Any thread.
//
// The plan's link faults act here, on real frames: loss, cut and one_way drop what is sent, repeat
// sends it again, delay and bandwidth hold what has arrived. Each node applies them to its own half
// of a link. A payload to be corrupted is spoiled by the links themselves, beneath their checksum
// (LinkEvents::spoils); what has no payload, or stays in this process, is dropped, as the
// receiver's check would do.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "actors/transport/frame_fate.hpp"
#include "actors/transport/links.hpp"
#include "actors/transport/transport.hpp"

namespace grapevine {

class LinkTransport final : public Transport {
 public:
  using Deliver = std::function<void(int to, Frame)>;
  using DeliverAt = std::function<void(double at, int to, Frame)>;
  struct Place {
    int rank = 0;
    std::string node;  // empty: here
  };
  struct Counts {
    uint64_t lost = 0;       // by faults of the plan
    uint64_t corrupt = 0;    // dropped here by corruptions of the plan
    uint64_t refused = 0;    // by a full queue, or no link
    uint64_t strangers = 0;  // arrived from a node that does not serve the sender's rank
  };

  LinkTransport(Deliver deliver, DeliverAt deliver_at, uint64_t seed)
      : deliver_(std::move(deliver)), deliver_at_(std::move(deliver_at)), seed_(seed) {}

  /// Until then, and after null, everything to other nodes is lost. The links must outlive it.
  void use(Links* links) { links_ = links; }
  void place(std::vector<Place> places);
  void set_faults(std::vector<LinkFault>);

  uint64_t send(double now, const FrameHeader&, Lease payload) override;
  void receive(double now, const std::string& node, Frame);

  /// Which bit of this frame's payload a plan turns over on its way to another node, if any.
  std::optional<uint64_t> spoils(double now, const FrameHeader&);

  Counts counts() const;

 private:
  std::shared_ptr<const std::string> node_of(uint32_t rank) const;  // null: nobody's
  FrameFate fate_of(const FrameHeader&, double now);
  double held_s(const FrameFate&, const FrameHeader&, double now);
  void hand_over(double now, const FrameFate&, Frame);

  Deliver deliver_;
  DeliverAt deliver_at_;
  uint64_t seed_;
  std::atomic<Links*> links_ = nullptr;
  mutable std::shared_mutex mutex_;                        // guards what follows
  std::vector<std::shared_ptr<const std::string>> nodes_;  // by rank
  std::shared_ptr<const std::vector<LinkFault>> faults_;   // null: none
  std::mutex narrow_mutex_;                                // guards the next
  NarrowLinks narrow_;
  std::atomic<uint64_t> draws_ = 0, lost_ = 0, corrupt_ = 0, refused_ = 0, strangers_ = 0;
};

}  // namespace grapevine
