// frame_fate: the effect of a plan's link faults on one frame, for simulated and real links.
#pragma once
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <span>

#include "actors/transport/link_model.hpp"
#include "kernels/base/random.hpp"
#include "messages/frame.hpp"

namespace grapevine {

struct FrameFate {
  bool lost = false, twice = false;
  bool corrupt = false;                      // a bit is flipped on the way
  std::optional<uint64_t> spoiled_bit = {};  // of the payload, if one was drawn
  double factor = 1;                         // of latency and transfer
  double extra_s = 0;                        // added to them
  double bytes_per_second = 0;               // 0: no limit
};

/// `random` belongs to the frame: one draw for each loss, repeat and corruption that acts on it, in
/// this order.
inline FrameFate frame_fate(std::span<const LinkFault> faults, const FrameHeader& h, double now,
                            Random& random) {
  FrameFate fate;
  for (const LinkFault& fault : faults) {
    if (!fault.touches(static_cast<int>(h.from), static_cast<int>(h.to), h.count > 0, now))
      continue;
    switch (fault.kind) {
      case LinkFaultKind::loss: fate.lost |= random.uniform() < fault.probability; break;
      case LinkFaultKind::repeat: fate.twice |= random.uniform() < fault.probability; break;
      case LinkFaultKind::corrupt: fate.corrupt |= random.uniform() < fault.probability; break;
      case LinkFaultKind::cut:
      case LinkFaultKind::one_way: fate.lost = true; break;
      case LinkFaultKind::delay:
        fate.factor *= fault.factor;
        fate.extra_s += fault.seconds;
        break;
      case LinkFaultKind::bandwidth: {
        const double other = fate.bytes_per_second > 0 ? fate.bytes_per_second
                                                       : std::numeric_limits<double>::infinity();
        fate.bytes_per_second = std::min(other, fault.bytes_per_second);
        break;
      }
    }
  }
  return fate;
}

/// The frames on links of limited bandwidth: from each rank to each other rank, one frame leaves
/// after the other.
class NarrowLinks {
 public:
  /// The time until the last byte of a frame that enters now has left.
  double wait_s(const FrameHeader& h, uint64_t bytes, double bytes_per_second, double now) {
    if (bytes_per_second <= 0) return 0;
    double& free_at = free_at_[{h.from, h.to}];
    free_at = std::max(free_at, now) + static_cast<double>(bytes) / bytes_per_second;
    return free_at - now;
  }

 private:
  std::map<std::pair<uint32_t, uint32_t>, double> free_at_;
};

}  // namespace grapevine
