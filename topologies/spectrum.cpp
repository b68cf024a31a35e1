#include "topologies/spectrum.hpp"

#include <fmt/core.h>

#include <Eigen/Dense>
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>

#include "kernels/base/check.hpp"
#include "kernels/base/spec.hpp"
#include "topologies/graphs.hpp"
#include "topologies/spectrum_chi.hpp"
#include "topologies/spectrum_sparse.hpp"

namespace grapevine {
namespace {

// A graph that looks the same from every rank: rank i has the neighbours i (+) s for every s of a
// fixed set of steps. (+) is addition modulo n (ring, complete, exponential) or bitwise exclusive
// or (hypercube). All edges of a step have one rate. Then the characters of the group diagonalise
// Lambda:
//
//   lambda_k = sum_s rate_s m_s (1 - chi_k(s))     R_s = 1/n sum_(k>0) 2 (1 - chi_k(s)) / lambda_k
//
// where m_s = 2 if s and -s are two neighbours, and 1 if they are one.
struct Step {
  double rate = 0;
  double neighbours = 0;  // m_s
  int edges = 0;
};

using Steps = std::map<int, Step>;

/// The steps of the edges; empty: the edges of one step differ in rate, or some are missing.
template <class StepOf>
std::optional<Steps> steps_of(const Topology& graph, std::span<const double> rates,
                              StepOf step_of) {
  Steps steps;
  for (size_t e = 0; e < rates.size(); ++e) {
    const auto [s, neighbours] = step_of(graph.edges()[e]);
    Step& step = steps[s];
    if (step.edges++ == 0) step = {rates[e], neighbours, 1};
    if (std::abs(step.rate - rates[e]) > 1e-13 * step.rate) return std::nullopt;
  }
  for (const auto& [s, step] : steps) {
    if (2 * step.edges != step.neighbours * graph.ranks()) return std::nullopt;
  }
  return steps;
}

/// `gap(k, s)` is 1 - chi_k(s).
template <class Gap>
Spectrum from_characters(int n, const Steps& steps, Gap gap) {
  std::vector<double> lambda(static_cast<size_t>(n), 0.0);
  for (const auto& [s, step] : steps) {
    for (int k = 0; k < n; ++k)
      lambda[k] += step.rate * step.neighbours * gap(k, s);
  }
  double resistance = 0;
  for (const auto& [s, step] : steps) {
    double sum = 0;
    for (int k = 1; k < n; ++k)
      sum += 2 * gap(k, s) / lambda[k];
    resistance = std::max(resistance, sum / n);
  }
  std::ranges::sort(lambda);
  Spectrum result{1 / lambda[1], 0.5 * resistance, {}};
  if (n <= kDenseRanks) result.eigenvalues = std::move(lambda);
  return result;
}

std::optional<Spectrum> closed_form(const Topology& graph, std::span<const double> rates) {
  const int n = graph.ranks();
  const auto around = [n](const Edge& edge) {
    const int s = std::min(edge.j - edge.i, n - (edge.j - edge.i));
    return std::pair(s, 2 * s == n ? 1.0 : 2.0);
  };
  if (const auto steps = steps_of(graph, rates, around)) {
    std::vector<double> gaps;  // 1 - cos(2 pi m / n), without cancellation
    for (int m = 0; m < n; ++m) {
      const double sine = std::sin(std::numbers::pi * std::min(m, n - m) / n);
      gaps.push_back(2 * sine * sine);
    }
    return from_characters(n, *steps, [&](int k, int s) { return gaps[int64_t{k} * s % n]; });
  }
  const auto bitwise = [](const Edge& edge) { return std::pair(edge.i ^ edge.j, 1.0); };
  if (!std::has_single_bit(static_cast<unsigned>(n))) return std::nullopt;
  const auto steps = steps_of(graph, rates, bitwise);
  if (!steps) return std::nullopt;
  return from_characters(n, *steps, [](int k, int s) {
    return 2.0 * (std::popcount(static_cast<unsigned>(k & s)) & 1);
  });
}

std::vector<double> all_eigenvalues(const Topology& graph, std::span<const double> rates) {
  Eigen::MatrixXd laplacian = Eigen::MatrixXd::Zero(graph.ranks(), graph.ranks());
  for (size_t e = 0; e < rates.size(); ++e) {
    const int i = graph.edges()[e].i, j = graph.edges()[e].j;
    laplacian(i, i) += rates[e];
    laplacian(j, j) += rates[e];
    laplacian(i, j) -= rates[e];
    laplacian(j, i) -= rates[e];
  }
  Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(laplacian, Eigen::EigenvaluesOnly);
  return {solver.eigenvalues().begin(), solver.eigenvalues().end()};
}

}  // namespace

Result<Spectrum> spectrum_chi(const Topology& graph, std::span<const double> rates) {
  GV_CHECK(graph.ranks() >= 1);
  GV_CHECK(rates.size() == graph.edges().size());
  for (size_t e = 0; e < rates.size(); ++e) {
    if (rates[e] > 0 && std::isfinite(rates[e])) continue;
    const Edge& edge = graph.edges()[e];
    return world_error(
        fmt::format("spectrum of {}: edge {} {} has rate {}; it must be positive and finite",
                    graph.name(), edge.i, edge.j, shown(rates[e])));
  }
  if (graph.ranks() == 1) return Spectrum{0, 0, {0.0}};
  auto closed = closed_form(graph, rates);
  Result<Spectrum> solved = closed ? std::move(*closed) : spectrum_sparse(graph, rates);
  if (!solved) return solved;
  const Spectrum& result = *solved;
  const auto possible = [](double chi) { return chi > 0 && std::isfinite(chi); };
  if (!possible(result.chi1) || !possible(result.chi2))
    return world_error(
        fmt::format("spectrum of {}: chi1 is {} and chi2 {}; rates are too large or too small",
                    graph.name(), shown(result.chi1), shown(result.chi2)));
  return solved;
}

Result<Spectrum> spectrum(const Topology& graph, std::span<const double> rates) {
  std::vector<double> own;
  if (rates.empty()) {
    for (const Edge& edge : graph.edges())
      own.push_back(edge.rate);
    rates = own;
  }
  Result<Spectrum> solved = spectrum_chi(graph, rates);
  if (!solved || !solved->eigenvalues.empty()) return solved;
  if (Spectrum& result = *solved; graph.ranks() <= kDenseRanks) {
    result.eigenvalues = all_eigenvalues(graph, rates);
    // The first two are known to full precision for any width of the spectrum.
    const double lambda_2 = 1 / result.chi1;
    for (double& value : result.eigenvalues)
      value = std::max(value, lambda_2);
    result.eigenvalues[0] = 0;
    result.eigenvalues[1] = lambda_2;
  }
  return solved;
}

}  // namespace grapevine
