// The oracle of the spectra: every eigenvector of the dense Laplacian. And random rates.
#pragma once
#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "kernels/base/random.hpp"
#include "topologies/topology.hpp"

namespace grapevine::test {

struct Dense {
  double chi1 = 0, chi2 = 0;
  std::vector<double> resistances;
  Eigen::VectorXd eigenvalues;
};

inline Dense dense(const Topology& graph, std::span<const double> rates) {
  const int n = graph.ranks();
  Eigen::MatrixXd laplacian = Eigen::MatrixXd::Zero(n, n);
  for (size_t e = 0; e < rates.size(); ++e) {
    Eigen::VectorXd d = Eigen::VectorXd::Zero(n);
    d[graph.edges()[e].i] = 1;
    d[graph.edges()[e].j] = -1;
    laplacian += rates[e] * d * d.transpose();
  }
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(laplacian);
  Dense result{1 / solver.eigenvalues()[1], 0, {}, solver.eigenvalues()};
  for (const Edge& edge : graph.edges()) {
    double resistance = 0;
    for (int k = 1; k < n; ++k) {
      const auto v = solver.eigenvectors().col(k);
      resistance += std::pow(v[edge.i] - v[edge.j], 2) / solver.eigenvalues()[k];
    }
    result.resistances.push_back(resistance);
  }
  result.chi2 = 0.5 * std::ranges::max(result.resistances);
  return result;
}

inline std::vector<double> random_rates(const Topology& graph, uint64_t index) {
  Random random(2024, 0, Purpose::test, index);
  std::vector<double> rates;
  for (size_t e = 0; e < graph.edges().size(); ++e) {
    rates.push_back(std::exp(random.uniform(std::log(0.1), std::log(10))));
  }
  return rates;
}

inline double apart(double a, double b) { return std::abs(a / b - 1); }

}  // namespace grapevine::test
