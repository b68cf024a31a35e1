// Judge: which test of a run was the best, and whether it is worth going on.
#pragma once
#include <optional>

#include "app/evaluation/score.hpp"

namespace grapevine {

class Judge {
 public:
  /// `validated`: as for score_of. `stop_after`: the number of tests without a better one after
  /// which the run ends; 0: never. `best`: of an earlier life of the run.
  Judge(bool validated, uint64_t stop_after, std::optional<Score> best = {})
      : validated_(validated), stop_after_(stop_after), best_(std::move(best)) {}

  /// Says of the test whether it is the best so far.
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
