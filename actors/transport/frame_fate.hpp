// frame_fate: what the link faults of a plan do to one frame. Simulated links and real ones ask the
// same question.
#pragma once
#include <span>

#include "actors/transport/link_faults.hpp"
#include "kernels/random.hpp"
#include "messages/frame.hpp"

namespace grapevine {

struct FrameFate {
  bool lost = false, twice = false;
  double factor = 1;   // on latency and transfer
  double extra_s = 0;  // added to them
};

/// `random` is the frame's own: a draw for each loss and repeat that touches it, in their order.
inline FrameFate frame_fate(std::span<const LinkFault> faults, const FrameHeader& h, double now,
                            Random& random) {
  FrameFate fate;
  for (const LinkFault& fault : faults) {
    if (!fault.touches(static_cast<int>(h.from), static_cast<int>(h.to), h.count > 0, now))
      continue;
    switch (fault.kind) {
      case LinkFaultKind::loss: fate.lost |= random.uniform() < fault.probability; break;
      case LinkFaultKind::repeat: fate.twice |= random.uniform() < fault.probability; break;
      case LinkFaultKind::cut:
      case LinkFaultKind::one_way: fate.lost = true; break;
      case LinkFaultKind::delay:
        fate.factor *= fault.factor;
        fate.extra_s += fault.seconds;
        break;
    }
  }
  return fate;
}

}  // namespace grapevine
