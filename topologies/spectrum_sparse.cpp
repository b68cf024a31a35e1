#include "topologies/spectrum_sparse.hpp"

#include <fmt/core.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "kernels/base/check.hpp"
#include "kernels/base/random.hpp"
#include "topologies/star_mesh.hpp"

namespace grapevine {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kTolerance = 1e-11;
constexpr int kMostSteps = 240;  // vectors kept; then a restart from the best one
constexpr int kMostRestarts = 100;

struct Approximation {
  VectorXd vector;
  bool converged = false;
  bool finite = true;
};

VectorXd random_direction(int ranks) {
  Random random(1, 0, Purpose::graph, uint64_t{1} << 32);  // a stream that no graph attempt uses
  VectorXd v(ranks);
  for (double& entry : v)
    entry = random.normal();
  v.array() -= v.mean();
  return v.normalized();
}

/// The top eigenvector of the tridiagonal matrix, expressed by the columns of `basis`.
Approximation top_vector(const MatrixXd& basis, const VectorXd& diagonal, const VectorXd& off,
                         int steps, double next_off) {
  Eigen::SelfAdjointEigenSolver<MatrixXd> small;
  small.computeFromTridiagonal(diagonal.head(steps), off.head(steps - 1));
  const double value = small.eigenvalues()[steps - 1];
  const VectorXd weights = small.eigenvectors().col(steps - 1);
  const bool converged = next_off * std::abs(weights[steps - 1]) <= kTolerance * value;
  return {basis.leftCols(steps) * weights, converged};
}

/// One run of Lanczos on Lambda^+ from `start`, orthogonal to the constant vector.
Approximation lanczos(const StarMesh& mesh, const VectorXd& start) {
  const int n = static_cast<int>(start.size());
  const int most = std::min(n - 1, kMostSteps);
  MatrixXd basis(n, std::min(most, 16));
  VectorXd diagonal(most), off(most);
  basis.col(0) = start;
  for (int step = 0, next_look = 6;; ++step) {
    VectorXd w = basis.col(step);
    mesh.solve({w.data(), static_cast<size_t>(n)});
    diagonal[step] = basis.col(step).dot(w);
    for (int twice = 0; twice < 2; ++twice) {
      w -= basis.leftCols(step + 1) * (basis.leftCols(step + 1).transpose() * w);
      w.array() -= w.mean();
    }
    off[step] = w.norm();
    if (!std::isfinite(off[step]) || !std::isfinite(diagonal[step]))
      return {.vector = start, .finite = false};
    const bool exhausted = off[step] <= kTolerance * diagonal[0] || step + 1 == n - 1;
    if (exhausted || step + 1 == most || step + 1 >= next_look) {
      auto top = top_vector(basis, diagonal, off, step + 1, exhausted ? 0 : off[step]);
      if (top.converged || step + 1 == most) return top;
      next_look = step + 1 + std::max(4, step / 4);
    }
    if (step + 1 == basis.cols()) {
      basis.conservativeResize(Eigen::NoChange, std::min<Eigen::Index>(most, 2 * basis.cols()));
    }
    basis.col(step + 1) = w / off[step];
  }
}

/// lambda_2 as a sum over edges: nothing cancels, and only the square of the vector's error
/// matters.
double rayleigh_quotient(const Topology& graph, std::span<const double> rates, const VectorXd& v) {
  double sum = 0;
  for (size_t e = 0; e < rates.size(); ++e) {
    const double difference = v[graph.edges()[e].i] - v[graph.edges()[e].j];
    sum += rates[e] * difference * difference;
  }
  return sum / v.squaredNorm();
}

}  // namespace

Result<Spectrum> spectrum_sparse(const Topology& graph, std::span<const double> rates) {
  GV_CHECK(graph.ranks() >= 2);
  const StarMesh mesh(graph, rates);
  Approximation top{random_direction(graph.ranks()), false};
  for (int restart = 0; !top.converged; ++restart) {
    if (restart == kMostRestarts || !top.finite)
      return world_error(fmt::format("spectrum of {}: Lanczos does not converge", graph.name()));
    top = lanczos(mesh, top.vector.normalized());
  }
  const auto resistances = mesh.edge_resistances();
  return Spectrum{
      1 / rayleigh_quotient(graph, rates, top.vector), 0.5 * std::ranges::max(resistances), {}};
}

}  // namespace grapevine
