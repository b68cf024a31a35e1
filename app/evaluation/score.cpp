#include "app/evaluation/score.hpp"

#include <fmt/core.h>

#include <cmath>

#include "app/system/words.hpp"

namespace grapevine {

bool better(const Score& score, const Score& than) {
  if (score.by != than.by || std::isnan(score.value)) return false;
  if (std::isnan(than.value)) return true;
  return score.more_is_better ? score.value > than.value : score.value < than.value;
}

Score score_of(const TestPoint& point, bool validated) {
  const Evaluation& judged = validated ? point.validation : point.test;
  const char* on = validated ? "validation" : "test";
  if (std::isfinite(judged.accuracy))
    return {fmt::format("{} accuracy", on), judged.accuracy, true, point.gradients};
  return {fmt::format("{} loss", on), judged.loss, false, point.gradients};
}

std::string score_text(const Score& score) {
  return fmt::format("{} {} after {} gradients", score.by,
                     score.more_is_better ? as_percent(score.value) : as_short(score.value),
                     with_commas(static_cast<double>(score.gradients)));
}

}  // namespace grapevine
