#include "actors/algorithms/a2cid2_constants.hpp"

#include <cmath>

namespace grapevine {

A2cid2Constants a2cid2_constants(const Spectrum& graph) {
  return {1 / (2 * std::sqrt(graph.chi1 * graph.chi2)), 0.5 * std::sqrt(graph.chi1 / graph.chi2)};
}

A2cid2Constants without_repeats(A2cid2Constants constants, const Topology& graph) {
  double sum = 0;
  int inner = 0;
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    if (graph.degree(rank) < 2) continue;
    sum += graph.degree(rank);
    ++inner;
  }
  if (inner == 0) return constants;
  const double d = sum / inner;
  const double s = std::sqrt(d / (d - 1));
  return {constants.eta * s, constants.alpha_tilde / s};
}

}  // namespace grapevine
