// LinkModel: the delays of links on the virtual clock (simulated.hpp has the equations). LinkFault:
// a plan's fault for frames on some links during some time. Values.
#pragma once
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace grapevine {

struct LinkModel {
  double latency_s = 0;   // one way, of a control frame
  double jitter = 0;      // fraction of the latency
  double transfer_s = 0;  // of a bulk frame, in addition to the latency
  double bandwidth = 0;   // bytes per second; 0: unlimited
};

enum class LinkFaultKind { loss, delay, cut, one_way, repeat, corrupt, bandwidth };
enum class FrameClass { all, control, bulk };  // bulk: frames with a payload

struct LinkFault {
  LinkFaultKind kind = LinkFaultKind::loss;
  FrameClass frames = FrameClass::all;
  // All links of these ranks; `links` empty too: every link.
  std::vector<int> ranks;
  std::vector<std::pair<int, int>> links;  // one_way: from the first to the second is cut
  double at = 0, until = std::numeric_limits<double>::infinity();  // seconds
  double probability = 1;                                          // loss, repeat, corrupt
  double seconds = 0;                                              // delay: added
  double factor = 1;            // delay: multiplies latency and transfer
  double bytes_per_second = 0;  // bandwidth: per direction of each pair of ranks
  std::string where = "plan";   // the place in the plan, FILE:LINE

  bool touches(int from, int to, bool bulk, double now) const {
    if (now < at || now >= until) return false;
    if (frames != FrameClass::all && (frames == FrameClass::bulk) != bulk) return false;
    if (ranks.empty() && links.empty()) return true;
    for (const int rank : ranks)
      if (rank == from || rank == to) return true;
    for (const auto& [i, j] : links) {
      if (i == from && j == to) return true;
      if (kind != LinkFaultKind::one_way && i == to && j == from) return true;
    }
    return false;
  }
};

}  // namespace grapevine
