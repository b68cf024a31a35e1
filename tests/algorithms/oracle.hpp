// Oracle: all ranks of a pairwise method in two dense matrices, event by event, everything at once.
//
// Row i of X and of Xt holds x and x~ of rank i, always as of the time of the latest event. Mixing
// is the exponential of eta dt [[-1, 1], [1, -1]], by Taylor's series and squaring, for all ranks
// at every event: no closed form, nothing put off. A jump that comes late enters as it would be now
// had it come in time: the impulse (-alpha m, -alpha~ m), mixed since its snapshot.
#pragma once
#include <Eigen/Dense>
#include <vector>

namespace grapevine::test {

/// exp(eta dt [[-1, 1], [1, -1]]).
inline Eigen::Matrix2d mixing_matrix(double eta_dt) {
  Eigen::Matrix2d a;
  a << -eta_dt, eta_dt, eta_dt, -eta_dt;
  int halvings = 0;
  for (; a.norm() > 0.5; a /= 2) ++halvings;
  Eigen::Matrix2d sum = Eigen::Matrix2d::Identity(), term = sum;
  for (int k = 1; k <= 18; ++k) {
    term = term * a / k;
    sum += term;
  }
  for (; halvings > 0; --halvings) sum = (sum * sum).eval();
  return sum;
}

class Oracle {
 public:
  using Row = Eigen::RowVectorXd;
  struct Sent {
    Row x;
    double phase;
  };

  /// decay: weight decay per column.
  Oracle(const Eigen::MatrixXd& x, double momentum, bool nesterov, const Row& decay)
      : momentum_(momentum), nesterov_(nesterov), decay_(decay), x_(x), x_tilde_(x) {
    v_ = Eigen::MatrixXd::Zero(x.rows(), x.cols());
  }

  void set_eta(double now, double eta) {
    mix_to(now);
    eta_ = eta;
  }

  void gradient(double now, int rank, double lr, const Row& g) {
    mix_to(now);
    const Row u = g + x_.row(rank).cwiseProduct(decay_);
    v_.row(rank) = momentum_ * v_.row(rank) + u;
    const Row step = nesterov_ ? Row(u + momentum_ * v_.row(rank)) : Row(v_.row(rank));
    x_.row(rank) -= lr * step;
    x_tilde_.row(rank) -= lr * step;
  }

  Sent snapshot(double now, int rank) {
    mix_to(now);
    return {x_.row(rank), phase_};
  }

  void jump(double now, int rank, const Sent& sent, const Row& received, double alpha,
            double alpha_tilde) {
    mix_to(now);
    const Eigen::Vector2d impulse =
        mixing_matrix(phase_ - sent.phase) * Eigen::Vector2d(-alpha, -alpha_tilde);
    x_.row(rank) += impulse[0] * (sent.x - received);
    x_tilde_.row(rank) += impulse[1] * (sent.x - received);
  }

  void mix_to(double now) {
    const Eigen::Matrix2d m = mixing_matrix(eta_ * (now - now_));
    const Eigen::MatrixXd x = m(0, 0) * x_ + m(0, 1) * x_tilde_;
    x_tilde_ = (m(1, 0) * x_ + m(1, 1) * x_tilde_).eval();
    x_ = x;
    phase_ += eta_ * (now - now_);
    now_ = now;
  }

  const Eigen::MatrixXd& x() const { return x_; }
  const Eigen::MatrixXd& x_tilde() const { return x_tilde_; }

 private:
  double momentum_;
  bool nesterov_;
  Row decay_;
  Eigen::MatrixXd x_, x_tilde_, v_;
  double eta_ = 0, now_ = 0, phase_ = 0;
};

}  // namespace grapevine::test
