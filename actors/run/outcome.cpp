#include <cmath>
#include <utility>

#include "actors/cluster/mean_sums.hpp"
#include "actors/run/run.hpp"
#include "kernels/memory/hash.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine {

std::vector<RankParameters> ranks_in_mean(const Outcome& outcome) {
  std::vector<RankParameters> ranks = outcome.parameters;
  std::erase_if(ranks, [](const RankParameters& p) { return p.is_apart; });
  return ranks.empty() ? outcome.parameters : ranks;
}

Buffer mean_parameters(const Outcome& outcome) {
  GV_CHECK(!outcome.parameters.empty());
  const std::vector<RankParameters> ranks = ranks_in_mean(outcome);
  const Buffer& first = *ranks.front().x;
  Buffer sum(first.size(), DType::f64);
  const Buffer zero(first.size(), DType::f64);
  for (const RankParameters& p : ranks)
    add_deviation({}, p.x->vec(), zero, sum);
  return mean_of(sum.vec(), static_cast<double>(ranks.size()), first.dtype());
}

double consensus_distance(const Outcome& outcome) {
  const std::vector<RankParameters> ranks = ranks_in_mean(outcome);
  const size_t size = ranks.front().x->size();
  Buffer sum(size, DType::f64), mean(size, DType::f64), unused(size, DType::f64);
  for (const RankParameters& p : ranks)
    add_deviation({}, p.x->vec(), mean, sum);
  const double n = static_cast<double>(ranks.size());
  scale({}, 1 / n, sum, mean);
  double squares = 0;
  for (const RankParameters& p : ranks)
    squares += add_deviation({}, p.x->vec(), mean, unused);
  return squares / n;
}

uint64_t parameter_hash(const Outcome& outcome) {
  uint64_t hash = kHashStart;
  for (const RankParameters& p : outcome.parameters)
    hash = fnv1a(std::as_const(*p.x).vec(), hash);
  return hash;
}

}  // namespace grapevine
