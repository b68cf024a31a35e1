// Moniqua: gossip with 2 bits per parameter. A message has each parameter modulo B. The receiver
// reconstructs it, because its own parameter is near.
// Paper: Lu, De Sa. ICML 2020. arXiv:2002.11787.
//
//   h_i = x_i + u_i                                  u the optimizer's step
//   q_i = h_i modulo B = 6 theta, on 4 levels        kernels/passes/moniqua.hpp
//   x_i = h_i + gamma sum_j W_ij (z_ij - z_ii)       z_ij the estimate of h_j - h_i from q_j
//
// settings.compress is "modulo:THETA". Requires symmetric weights, parameters of neighbours that
// differ by less than theta (a larger difference is not noticed), and a small gamma (about 0.005 to
// 0.05). The noise of the rounding is the same on all ranks in the same round, as the paper
// advises: equal parameters send equal bytes. The count of rounds starts at 0 in each epoch, as in
// the conversation. (The published code draws the shared seed and does not use it.) The terms of
// lost messages are left out (Missing::own).
// Invariant: gossip keeps the mean of x, up to rounding, while no message is lost and no difference
// wraps.
// Cost per rank and round: one message of ceil(d / 4) bytes to each neighbour. Memory: x, its
// successor, the optimizer.
#pragma once
#include "actors/algorithms/rule.hpp"
#include "kernels/base/result.hpp"

namespace grapevine {

class Moniqua final : public RoundRule {
 public:
  static constexpr double kTheta = 1;  // if settings.compress is empty

  /// Accepts "modulo:THETA" with THETA above 0, and "" (kTheta).
  static Result<double> theta_of(const std::string& compress);

  explicit Moniqua(const RuleContext&);

  void enter(const Neighbourhood&) override;
  RuleState state(double now) override;
  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  bool conserves() const override { return settings_.missing == Missing::resend; }
  size_t message_bytes() const override { return own_.size(); }
  void write(int phase, size_t edge, Payload& out) override;
  bool pulls() const override { return true; }
  Vec pull(int phase, std::span<const Received> in) override;
  void combine(double now, int phase, std::span<const Received> in) override;

 private:
  void encode();

  double theta_;
  Buffer own_;  // q, packed
  Buffer pull_;
  uint64_t round_ = 0;  // of this epoch
};

}  // namespace grapevine
