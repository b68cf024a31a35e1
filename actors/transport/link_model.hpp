// LinkModel: what links cost on the virtual clock (simulated.hpp has the equations). A value.
#pragma once

namespace grapevine {

struct LinkModel {
  double latency_s = 0;   // one way, of a control frame
  double jitter = 0;      // fraction of the latency
  double transfer_s = 0;  // of a bulk frame, beside the latency
  double bandwidth = 0;   // bytes per second; 0: unlimited
};

}  // namespace grapevine
