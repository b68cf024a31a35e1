// SecondMoments: the exact, deterministic evolution of P = E[z z^T] under Poisson gossip, where
// z = (x_1..x_n, x~_1..x~_n) holds one number and its twin per rank.
//
// Between events every rank mixes by itself; at the events of edge e, Poisson of rate lambda_e, its
// two ranks exchange. Both are linear in z: an exchange is z -> (I + U_e) z with U_e zero outside
// the four entries of its two ranks, and mixing has a generator A. Then P obeys the closed equation
//
//   dP/dt = B P + P B^T + sum_e lambda_e U_e P U_e^T        B = A + sum_e lambda_e U_e
//
// which for A2CiD2's map is dP/dt = (M - G) P + P (M - G)^T + [[a^2, a a~], [a a~, a~^2]] (x)
// Lap(lambda_e s_e), s_e = (e_i - e_j)^T P_xx (e_i - e_j). Here A and U_e are *read off a rule*: it
// is called on unit vectors, so the rule that is tested is the one that runs.
#pragma once
#include <Eigen/Dense>
#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "topologies/topology.hpp"

namespace grapevine::test {

/// The linear map of a pairwise rule on one coordinate. Both functions work in place.
struct LinearRule {
  std::function<void(double& x, double& x_tilde, double seconds)> mix;
  std::function<void(double& x_i, double& x_tilde_i, double& x_j, double& x_tilde_j)> exchange;
};

class SecondMoments {
 public:
  SecondMoments(const Topology& graph, const LinearRule& rule)
      : graph_(graph), n_(graph.ranks()), jump_(jump_of(rule)) {
    drift_ = Eigen::MatrixXd::Zero(2 * n_, 2 * n_);
    const Eigen::Matrix2d mixing = mixing_generator(rule);
    for (int i = 0; i < n_; ++i) drift_({i, n_ + i}, {i, n_ + i}) += mixing;
    for (const Edge& edge : graph_.edges()) drift_(at(edge), at(edge)) += edge.rate * jump_;
  }

  /// dP/dt for a symmetric P of 2n x 2n.
  Eigen::MatrixXd derivative(const Eigen::MatrixXd& p) const {
    const Eigen::MatrixXd half = drift_ * p;
    Eigen::MatrixXd change = half + half.transpose();
    for (const Edge& edge : graph_.edges()) {
      const Eigen::Matrix4d block = p(at(edge), at(edge));
      change(at(edge), at(edge)) += edge.rate * jump_ * block * jump_.transpose();
    }
    return change;
  }

  /// P of a start that is independent at every rank, x~ = x, mean taken away.
  Eigen::MatrixXd independent_start() const {
    Eigen::MatrixXd p(2 * n_, 2 * n_);
    const Eigen::MatrixXd centred =
        Eigen::MatrixXd::Identity(n_, n_).array() - 1.0 / static_cast<double>(n_);
    p << centred, centred, centred, centred;
    return p;
  }

  /// The rate at which E|pi x|^2 decays in the long run from independent_start(): the slowest mode
  /// of dP/dt on the smallest space that holds the start and its derivatives. That space has the
  /// symmetries of the graph (ring: some 3 n / 2 dimensions, not 2 n^2), so Arnoldi's process
  /// exhausts it. Modes that only rounding brought in have no part in E|pi x|^2 and do not count.
  double slowest_decay(int most_dimensions = 160) const {
    std::vector<Eigen::MatrixXd> basis{independent_start()};
    basis[0] /= basis[0].norm();
    Eigen::MatrixXd h = Eigen::MatrixXd::Zero(most_dimensions + 1, most_dimensions);
    int size = 0;
    for (double left = 1, scale = 0; left > 1e-8 * scale && size < most_dimensions; ++size) {
      Eigen::MatrixXd w = derivative(basis[size]);
      scale = std::max(scale, w.norm());
      for (int twice = 0; twice < 2; ++twice) {
        for (int k = 0; k <= size; ++k) {
          const double part = basis[k].cwiseProduct(w).sum();
          h(k, size) += part;
          w -= part * basis[k];
        }
      }
      left = w.norm();
      h(size + 1, size) = left;
      basis.push_back(w / left);
    }
    Eigen::RowVectorXd distance(size);  // E|pi x|^2 of every basis element
    for (int k = 0; k < size; ++k) distance[k] = basis[k].topLeftCorner(n_, n_).trace();
    const Eigen::EigenSolver<Eigen::MatrixXd> modes(h.topLeftCorner(size, size));
    const Eigen::VectorXcd start = Eigen::VectorXcd::Unit(size, 0);
    const Eigen::VectorXd part = (distance * modes.eigenvectors()).transpose().cwiseProduct(
        modes.eigenvectors().fullPivLu().solve(start)).cwiseAbs();
    double slowest = std::numeric_limits<double>::infinity();
    for (int k = 0; k < size; ++k) {
      if (part[k] > 1e-6 * part.maxCoeff()) {
        slowest = std::min(slowest, -modes.eigenvalues()[k].real());
      }
    }
    return slowest;
  }

 private:
  std::vector<int> at(const Edge& edge) const {
    return {edge.i, n_ + edge.i, edge.j, n_ + edge.j};
  }

  static Eigen::Matrix4d jump_of(const LinearRule& rule) {
    Eigen::Matrix4d image = Eigen::Matrix4d::Identity();
    for (int k = 0; k < 4; ++k) rule.exchange(image(0, k), image(1, k), image(2, k), image(3, k));
    return image - Eigen::Matrix4d::Identity();
  }

  /// log(F) / seconds of the mixing map F over a short time, by the series of log(I + (F - I)).
  static Eigen::Matrix2d mixing_generator(const LinearRule& rule) {
    const double seconds = 1e-3;
    Eigen::Matrix2d image = Eigen::Matrix2d::Identity();
    for (int k = 0; k < 2; ++k) rule.mix(image(0, k), image(1, k), seconds);
    const Eigen::Matrix2d small = image - Eigen::Matrix2d::Identity();
    Eigen::Matrix2d power = small, sum = Eigen::Matrix2d::Zero();
    for (int k = 1; k <= 12; ++k, power = power * -small) sum += power / k;
    return sum / seconds;
  }

  const Topology& graph_;
  int n_;
  Eigen::Matrix4d jump_;   // U_e on (x_i, x~_i, x_j, x~_j)
  Eigen::MatrixXd drift_;  // B
};

}  // namespace grapevine::test
