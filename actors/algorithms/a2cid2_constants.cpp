#include "actors/algorithms/a2cid2_constants.hpp"

#include <cmath>

namespace grapevine {

Result<A2cid2Constants> a2cid2_constants(const Spectrum& graph) {
  const A2cid2Constants c{1 / (2 * std::sqrt(graph.chi1 * graph.chi2)),
                          0.5 * std::sqrt(graph.chi1 / graph.chi2)};
  const auto possible = [](double value) { return value > 0 && std::isfinite(value); };
  if (possible(c.eta) && possible(c.alpha_tilde)) return c;
  return world_error("chi1 and chi2 of the graph give no constants: eta is " +
                     std::to_string(c.eta) + ", alpha~ " + std::to_string(c.alpha_tilde));
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
