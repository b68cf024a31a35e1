// What a run tells of itself, while it goes on and at its end. Values that know no actor.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/alarm.hpp"
#include "actors/conversations/conversation.hpp"
#include "kernels/result.hpp"

namespace grapevine {

struct RunSample {
  double at_s = 0;
  uint64_t gradients = 0, exchanges = 0, bytes = 0;
  double loss = 0;  // mean over the gradients since the last sample; NaN when there were none
  double consensus_distance = 0;  // mean over ranks of |x_i - mean|^2
  // Of the mean; NaN: not tested.
  double suboptimality = std::numeric_limits<double>::quiet_NaN();
  double accuracy = std::numeric_limits<double>::quiet_NaN();
  int ranks = 0;
  std::shared_ptr<const std::vector<double>> mean;  // of the parameters over ranks; may be null
};

struct EpochInfo {
  uint64_t epoch = 0;
  double at_s = 0;         // it began
  double solved_at_s = 0;  // these constants were found
  std::string topology;
  int ranks = 0;
  double chi1 = 0, chi2 = 0, eta = 0, alpha_tilde = 0;
  double relay_delay = 0;  // of the graph's trees, where the method relays
};

struct RunTotals {
  std::optional<Error> failure;  // the run ended early, and why
  std::optional<Alarm> alarm;    // the run has diverged
  double seconds = 0;            // of the run's clock, without the drain
  uint64_t gradients = 0, exchanges = 0;
  uint64_t frames = 0, bytes = 0;  // sent
  Counts counts;                   // summed over ranks; the longest offer is the largest
  double broken_after_norm = 0;    // of the jumps whose other half may be missing, summed
  double conserved_error = 0;      // see Collected; NaN: not audited
  bool quiet = true;               // no exchange was left half-done
};

}  // namespace grapevine
