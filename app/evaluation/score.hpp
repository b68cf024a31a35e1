// Score: the result by which a model is judged during a run. TestPoint: one test.
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
  uint64_t gradients = 0;  // of all ranks here, at this model
};

/// A score is never better than one of another measure, and a score that is not a number is never
/// better.
bool better(const Score&, const Score& than);

/// One test of the mean of the ranks here.
struct TestPoint {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  double at_s = 0;         // when the mean was taken, by the run's clock
  uint64_t gradients = 0;  // of all ranks here
  Evaluation test{kNone, kNone};
  Evaluation validation{kNone, kNone};  // on the samples that were set aside
  bool is_best = false;                 // so far
};

/// `validated`: from the samples that were set aside, else from the test set. The accuracy, if the
/// objective has one, else the loss.
Score score_of(const TestPoint&, bool validated);

/// "test loss 0.31 after 12,000 gradients"
std::string score_text(const Score&);

}  // namespace grapevine
