// The decay of differences by gossip: checks the second-moment equations, and the bounds that the
// theory gives for the constants of spectrum() (Nabli, Belilovsky, Oyallon, NeurIPS 2023, Prop.
// 3.6). rules_constants_test checks the table of decay rates with rules that run.
#include <cmath>

#include "tests/algorithms/second_moments.hpp"
#include "tests/topologies/tools.hpp"
#include "topologies/spectrum.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

/// A2CiD2's map on one coordinate: exact mixing, and a jump along x_i - x_j at both ends.
LinearRule pairwise_map(double eta, double alpha, double alpha_tilde) {
  const auto mix = [eta](double& x, double& x_tilde, double seconds) {
    const double moved = -0.5 * std::expm1(-2 * eta * seconds) * (x_tilde - x);
    x += moved;
    x_tilde -= moved;
  };
  const auto exchange = [=](double& x_i, double& x_tilde_i, double& x_j, double& x_tilde_j) {
    const double m = x_i - x_j;
    x_i -= alpha * m;
    x_tilde_i -= alpha_tilde * m;
    x_j += alpha * m;
    x_tilde_j += alpha_tilde * m;
  };
  return {mix, exchange};
}

LinearRule plain_averaging() { return pairwise_map(0, 0.5, 0.5); }

LinearRule accelerated(const Topology& graph) {
  const Spectrum s = spectrum_of(graph);
  return pairwise_map(0.5 / std::sqrt(s.chi1 * s.chi2), 0.5, 0.5 * std::sqrt(s.chi1 / s.chi2));
}

double decay(const Topology& graph, const LinearRule& rule) {
  return SecondMoments(graph, rule).slowest_decay();
}

/// The least decay rate of dP/dt as a matrix, on a basis of the symmetric P with no mean.
double slowest_of_all(const SecondMoments& moments, int n) {
  const Eigen::MatrixXd centring = Eigen::MatrixXd::Identity(n, n).array() - 1.0 / n;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(centring);
  const int m = n - 1;
  Eigen::MatrixXd q = Eigen::MatrixXd::Zero(2 * n, 2 * m);
  q.topLeftCorner(n, m) = q.bottomRightCorner(n, m) = solver.eigenvectors().rightCols(m);
  std::vector<std::pair<int, int>> entries;
  for (int a = 0; a < 2 * m; ++a) {
    for (int b = a; b < 2 * m; ++b)
      entries.emplace_back(a, b);
  }
  const auto size = static_cast<Eigen::Index>(entries.size());
  Eigen::MatrixXd equations(size, size);
  for (Eigen::Index k = 0; k < size; ++k) {
    const auto [a, b] = entries[static_cast<size_t>(k)];
    Eigen::MatrixXd unit = Eigen::MatrixXd::Zero(2 * m, 2 * m);
    unit(a, b) = unit(b, a) = 1;
    const Eigen::MatrixXd change = q.transpose() * moments.derivative(q * unit * q.transpose()) * q;
    for (Eigen::Index l = 0; l < size; ++l) {
      equations(l, k) =
          change(entries[static_cast<size_t>(l)].first, entries[static_cast<size_t>(l)].second);
    }
  }
  return -equations.eigenvalues().real().maxCoeff();
}

}  // namespace

TEST_CASE("the slowest decay is that of a dense eigensolver on all centred matrices P") {
  for (const auto& [spec, n] : {std::pair<std::string, int>{"ring", 4},
                                {"ring", 8},
                                {"star", 8},
                                {"exponential", 4},
                                {"exponential", 8},
                                {"binary-tree", 5}}) {
    INFO(spec << " with " << n << " ranks");
    const Topology made = graph(spec, n);
    const double slowest = slowest_of_all(SecondMoments(made, accelerated(made)), n);
    CHECK(decay(made, accelerated(made)) == Approx(slowest).epsilon(1e-7));
  }
}

TEST_CASE("the equations read off the map are those written for A2CiD2") {
  const Topology made = graph("random-regular:3", 6, 1.3);
  const double eta = 0.21, alpha = 0.4, alpha_tilde = 0.9;
  const SecondMoments moments(made, pairwise_map(eta, alpha, alpha_tilde));
  Eigen::MatrixXd p = Eigen::MatrixXd::Random(12, 12);
  p = (p + p.transpose()).eval();

  Eigen::MatrixXd laplacian = Eigen::MatrixXd::Zero(6, 6), noise = laplacian;
  for (const Edge& edge : made.edges()) {
    Eigen::VectorXd d = Eigen::VectorXd::Zero(6);
    d[edge.i] = 1;
    d[edge.j] = -1;
    laplacian += edge.rate * d * d.transpose();
    noise += edge.rate * d.dot(p.topLeftCorner(6, 6) * d) * d * d.transpose();
  }
  const Eigen::MatrixXd one = Eigen::MatrixXd::Identity(6, 6);
  Eigen::MatrixXd drift(12, 12), spread(12, 12);
  drift << -eta * one - alpha * laplacian, eta * one, eta * one - alpha_tilde * laplacian,
      -eta * one;
  spread << alpha * alpha * noise, alpha * alpha_tilde * noise, alpha * alpha_tilde * noise,
      alpha_tilde * alpha_tilde * noise;
  const Eigen::MatrixXd expected = drift * p + p * drift.transpose() + spread;
  CHECK((moments.derivative(p) - expected).norm() < 1e-11 * expected.norm());
}

TEST_CASE("acceleration decays at least as fast as the theory promises: eta") {
  for (const std::string spec : {"torus", "binary-tree", "cliques", "hypercube"}) {
    const Topology made = graph(spec, 16);
    const Spectrum s = spectrum_of(made);
    INFO(spec);
    CHECK(decay(made, accelerated(made)) > 0.5 / std::sqrt(s.chi1 * s.chi2));
    CHECK(decay(made, plain_averaging()) > 0.5 / s.chi1);
  }
}
