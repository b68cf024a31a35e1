// Departure: ranks that a run has lost, because their node has left or is dead. A value. The mean
// over ranks jumps then.
#pragma once
#include <limits>
#include <string>

namespace grapevine {

struct Departure {
  std::string node;
  bool polite = false;
  int ranks = 0, of = 0;  // that many there were before
  double at_s = 0;
  // The norm of the jump. Of the node itself that leaves: measured. Of others: (ranks / of) times
  // the root mean square of |x_i - x_j| between a rank i here and one j of them, as last seen. NaN:
  // nothing is known of them here. 0 where push-sum mass was handed over.
  double mean_changed_by = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace grapevine
