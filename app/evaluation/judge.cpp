#include "app/evaluation/judge.hpp"

#include <cmath>

namespace grapevine {

void Judge::see(TestPoint& point) {
  const Score score = score_of(point, validated_);
  // The score of an earlier life counts only if it has the same measure.
  const bool is_first = !best_ || best_->by != score.by;
  point.is_best = is_first ? !std::isnan(score.value) : better(score, *best_);
  since_best_ = point.is_best ? 0 : since_best_ + 1;
  if (point.is_best) best_ = score;
}

}  // namespace grapevine
