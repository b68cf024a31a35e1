// DeepSqueeze: gossip with compressed messages. The next message includes the compression error.
// Paper: Tang, Lian, Qiu, Yuan, Zhang, Zhang, Liu. "DeepSqueeze: Decentralization Meets
// Error-Compensated Compression". arXiv:1907.07346.
//
//   h_i = x_i + u_i                                  u the optimizer's step
//   v_i = h_i + delta_i,   q_i = C(v_i)              C of settings.compress, tensor by tensor
//   delta_i = v_i - q_i                              delta = 0 at first
//   x_i = h_i + gamma sum_j W_ij (q_j - q_i)
//
// Requires symmetric weights and a small gamma (about 0.01 with sign). The terms of lost messages
// are left out (Missing::own). Invariant: gossip keeps the mean of x, up to rounding, while no
// message is lost. Cost per rank and round: one message of C's bytes
// (kernels/codecs/compressor.hpp) to each neighbour; with sign, ceil(d / 8) bytes and one number
// per tensor of d elements. Memory: x, delta, the optimizer.
#pragma once
#include "actors/algorithms/compressed_rule.hpp"

namespace grapevine {

class DeepSqueeze final : public CompressedRule {
 public:
  static constexpr const char* kCompress = "sign";  // if settings.compress is empty

  explicit DeepSqueeze(const RuleContext&);

  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  bool pulls() const override { return true; }
  Vec pull(int phase, std::span<const Received> in) override;
  void combine(double now, int phase, std::span<const Received> in) override;

 private:
  Buffer delta_;
};

}  // namespace grapevine
