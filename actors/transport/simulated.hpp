// SimulatedTransport: links with latency, transfer time, jitter and faults, on a virtual clock.
//
//   control frame   latency (1 + jitter u)                u uniform in [-1, 1)
//   bulk frame      that + transfer (1 + 0.1 u'),         transfer = transfer_s + bytes / bandwidth
//
// A plan's `bandwidth` acts before both: frames leave one after the other. A frame that a plan
// corrupts is dropped, as a real link drops a frame with a wrong checksum.
//
// Frames may overtake each other. All draws are keyed by (seed, sender, its frame number). The
// event-log hash includes every frame with its time, encoded header and payload, so two runs with
// the same hash exchanged the same bytes at the same times.
#pragma once
#include <vector>

#include "actors/transport/frame_fate.hpp"
#include "actors/transport/link_model.hpp"
#include "actors/transport/transport.hpp"
#include "kernels/base/random.hpp"

namespace grapevine {

class SimulatedTransport final : public Transport {
 public:
  using DeliverAt = std::function<void(double at, int to, Frame)>;

  SimulatedTransport(const LinkModel& model, std::vector<LinkFault> faults, uint64_t seed,
                     int ranks, DeliverAt deliver);

  uint64_t send(double now, const FrameHeader&, Lease payload) override;

  uint64_t event_log_hash() const { return hash_; }
  uint64_t lost() const { return lost_; }
  uint64_t corrupt() const { return corrupt_; }
  void fold(uint64_t word) { hash_ = after(hash_, word); }

 private:
  static uint64_t after(uint64_t hash, uint64_t word) {
    return (hash ^ word) * 0x9E3779B97F4A7C15 + (hash >> 29);
  }
  void fold(const void* data, size_t bytes);  // in words, the last one padded with zeros
  void log(double now, const FrameHeader&, const Lease& payload);

  LinkModel model_;
  std::vector<LinkFault> faults_;
  uint64_t seed_;
  std::vector<uint64_t> sent_;  // frames so far, per sender
  DeliverAt deliver_;
  uint64_t hash_ = 0x243F6A8885A308D3;
  uint64_t lost_ = 0, corrupt_ = 0;
  NarrowLinks narrow_;
};

}  // namespace grapevine
