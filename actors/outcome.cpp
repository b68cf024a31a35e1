#include <cmath>
#include <utility>

#include "actors/run.hpp"
#include "kernels/ops.hpp"

namespace grapevine {

Buffer mean_parameters(const Outcome& outcome) {
  GV_CHECK(!outcome.parameters.empty());
  const Buffer& first = *outcome.parameters.front().x;
  Buffer sum(first.size(), DType::f64);
  const Buffer zero(first.size(), DType::f64);
  for (const RankParameters& p : outcome.parameters)
    add_deviation({}, p.x->vec(), zero, sum);
  Buffer mean(first.size(), first.dtype());
  const double n = static_cast<double>(outcome.parameters.size());
  for (size_t k = 0; k < first.size(); ++k) {
    const double value = sum.vec().as<double>()[k] / n;
    if (first.dtype() == DType::f32) {
      mean.vec().as<float>()[k] = static_cast<float>(value);
    } else {
      mean.vec().as<double>()[k] = value;
    }
  }
  return mean;
}

double consensus_distance(const Outcome& outcome) {
  const size_t size = outcome.parameters.front().x->size();
  Buffer sum(size, DType::f64), mean(size, DType::f64), unused(size, DType::f64);
  for (const RankParameters& p : outcome.parameters)
    add_deviation({}, p.x->vec(), mean, sum);
  const double n = static_cast<double>(outcome.parameters.size());
  scale({}, 1 / n, sum, mean);
  double squares = 0;
  for (const RankParameters& p : outcome.parameters)
    squares += add_deviation({}, p.x->vec(), mean, unused);
  return squares / n;
}

uint64_t parameter_hash(const Outcome& outcome) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const RankParameters& p : outcome.parameters) {
    const ConstVec x = std::as_const(*p.x).vec();
    const auto* bytes = static_cast<const unsigned char*>(x.data);
    for (size_t k = 0; k < x.bytes(); ++k)
      hash = (hash ^ bytes[k]) * 0x100000001b3;
  }
  return hash;
}

}  // namespace grapevine
