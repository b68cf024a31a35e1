// Judge: which test of a run was the best, and whether the run should continue.
#pragma once
#include <optional>

#include "app/evaluation/score.hpp"

namespace grapevine {

class Judge {
 public:
  /// `validated`: as in score_of. `stop_after`: the run ends after this many tests without a better
  /// one; 0: never. `best`: of an earlier life of the run.
  Judge(bool validated, uint64_t stop_after, std::optional<Score> best = {})
      : validated_(validated), stop_after_(stop_after), best_(std::move(best)) {}

  /// Sets is_best of the test.
  void see(TestPoint&);

  const std::optional<Score>& best() const { return best_; }
  uint64_t since_best() const { return since_best_; }
  bool is_enough() const { return stop_after_ > 0 && since_best_ >= stop_after_; }

 private:
  bool validated_;
  uint64_t stop_after_, since_best_ = 0;
  std::optional<Score> best_;
};

}  // namespace grapevine
