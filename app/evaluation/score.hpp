// Score: the result by which a model is judged during a run, and one test.
#pragma once
#include <cstdint>
#include <limits>
#include <string>

#include "models/objective.hpp"

namespace grapevine {

struct Score {
  std::string by;  // "validation accuracy", "test loss", ...
  double value = 0;
  bool more_is_better = false;
  uint64_t gradients = 0;  // of all ranks here, of the model that has it
};

/// Scores by different measures are never better than each other, and a score that is not a number
/// is never better.
bool better(const Score&, const Score& than);

/// One test of the mean of the ranks here.
struct TestPoint {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  double at_s = 0;         // when the mean was taken, by the run's clock
  uint64_t gradients = 0;  // of all ranks here
  Evaluation test{kNone, kNone};
  Evaluation validation{kNone, kNone};  // on what was set aside
  bool is_best = false;                 // so far
};

/// `validated`: by the samples that are set aside, else by the test set. By accuracy where the
/// objective has one, else by loss.
Score score_of(const TestPoint&, bool validated);

/// "test loss 0.31 after 12,000 gradients"
std::string score_text(const Score&);

}  // namespace grapevine
