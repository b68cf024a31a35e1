#include "topologies/weights.hpp"

#include <fmt/core.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "kernels/base/check.hpp"
#include "kernels/base/random.hpp"
#include "kernels/base/spec.hpp"
#include "topologies/graphs.hpp"
#include "topologies/spectrum.hpp"

namespace grapevine {
namespace {

Error refused_weights(const std::string& spec, const Topology& graph, const std::string& why) {
  return user_error(fmt::format("weights {} on topology {} with {} ranks: {}", in_quotes(spec),
                                in_quotes(graph.name()), graph.ranks(), why));
}

GossipMatrix metropolis(const Topology& graph) {
  GossipMatrix matrix{{}, std::vector<double>(static_cast<size_t>(graph.ranks()), 1.0)};
  for (const Edge& edge : graph.edges()) {
    const double weight = 1.0 / (1 + std::max(graph.degree(edge.i), graph.degree(edge.j)));
    matrix.edge.push_back(weight);
    matrix.self[edge.i] -= weight;
    matrix.self[edge.j] -= weight;
  }
  return matrix;
}

GossipMatrix lazy(const Topology& graph) {
  GossipMatrix matrix = metropolis(graph);
  for (double& weight : matrix.edge)
    weight /= 2;
  for (double& weight : matrix.self)
    weight = (weight + 1) / 2;
  return matrix;
}

Result<GossipMatrix> uniform(const std::string& spec, const Topology& graph) {
  const std::string_view given = Spec(spec).value.value_or("");
  const auto weight = number_of<double>(given);
  int most = 0;
  for (int rank = 1; rank < graph.ranks(); ++rank) {
    if (graph.degree(rank) > graph.degree(most)) most = rank;
  }
  const int degree = graph.degree(most);
  const std::string accepted =
      fmt::format("; accepted: uniform:W with W above 0 and at most 1/{} = {}", std::max(degree, 1),
                  shown(1.0 / std::max(degree, 1)));
  if (!weight || !(*weight > 0) || !std::isfinite(*weight)) {
    return refused_weights(
        spec, graph, fmt::format("W {} is not a positive number{}", in_quotes(given), accepted));
  }
  constexpr double kRounding = 1e-12;
  const double left = 1 - degree * *weight;
  if (left < -kRounding) {
    return refused_weights(
        spec, graph,
        fmt::format("rank {} with {} neighbours would keep 1 - {} W = {} of itself{}", most, degree,
                    degree, shown(left), accepted));
  }
  GossipMatrix matrix{std::vector<double>(graph.edges().size(), *weight), {}};
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    matrix.self.push_back(std::max(0.0, 1 - graph.degree(rank) * *weight));
  }
  return matrix;
}

/// For the Laplacian 1 - W, by Lanczos without reorthogonalisation. Its ghosts are copies of
/// existing eigenvalues, which do no harm, because only the largest is needed.
double largest_eigenvalue(const Topology& graph, const GossipMatrix& matrix) {
  constexpr int kMostSteps = 1000, kLook = 50;
  constexpr double kTolerance = 1e-10;
  const Eigen::Index n = graph.ranks();
  Random random(1, 0, Purpose::graph, (uint64_t{1} << 32) + 1);  // a stream with no other use
  Eigen::VectorXd v(n), before = Eigen::VectorXd::Zero(n), w(n);
  for (double& entry : v)
    entry = random.normal();
  v.normalize();
  Eigen::VectorXd diagonal(kMostSteps), off = Eigen::VectorXd::Zero(kMostSteps);
  Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> small;
  double top = 0;
  for (int step = 0;; ++step) {
    w.setZero();
    for (size_t e = 0; e < matrix.edge.size(); ++e) {
      const Edge& edge = graph.edges()[e];
      const double flow = matrix.edge[e] * (v[edge.i] - v[edge.j]);
      w[edge.i] += flow;
      w[edge.j] -= flow;
    }
    if (step > 0) w -= off[step - 1] * before;
    diagonal[step] = v.dot(w);
    w -= diagonal[step] * v;
    off[step] = w.norm();
    const bool exhausted = off[step] <= kTolerance || step + 1 == kMostSteps;
    if (exhausted || (step + 1) % kLook == 0) {
      small.computeFromTridiagonal(diagonal.head(step + 1), off.head(step), Eigen::EigenvaluesOnly);
      const double last = std::exchange(top, small.eigenvalues()[step]);
      if (exhausted || top - last <= kTolerance) return top;
    }
    before.swap(v);
    v = w / off[step];
  }
}

}  // namespace

Result<GossipMatrix> gossip_matrix(const std::string& spec, const Topology& graph) {
  if (spec == "metropolis") return metropolis(graph);
  if (spec == "lazy") return lazy(graph);
  if (Spec(spec).name == "uniform") return uniform(spec, graph);
  return user_error(
      fmt::format("weights {}: unknown; accepted: metropolis, lazy or uniform:W", in_quotes(spec)));
}

Result<MatrixSpectrum> matrix_spectrum(const Topology& graph, const GossipMatrix& matrix) {
  GV_CHECK(matrix.edge.size() == graph.edges().size());
  GV_CHECK(matrix.self.size() == static_cast<size_t>(graph.ranks()));
  if (graph.ranks() == 1) return MatrixSpectrum{};
  const Result<Spectrum> laplacian = spectrum(graph, matrix.edge);  // W = 1 - Lambda
  if (!laplacian) return laplacian.error();
  const double largest = laplacian->eigenvalues.empty() ? largest_eigenvalue(graph, matrix)
                                                        : laplacian->eigenvalues.back();
  return MatrixSpectrum{1 - 1 / laplacian->chi1, 1 - largest};
}

double best_gamma(MatrixSpectrum spectrum) {
  return 2 / ((1 - spectrum.second) + (1 - spectrum.least));
}

}  // namespace grapevine
