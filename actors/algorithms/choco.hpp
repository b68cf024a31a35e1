// Choco: gossip with compressed messages. Every rank keeps copies of its neighbours' models, which
// the messages update.
// Paper: Koloskova, Stich, Jaggi. ICML 2019, arXiv:1902.00340; Koloskova, Lin, Stich, Jaggi. ICLR
// 2020, arXiv:1907.09356.
//
//   h_i = x_i + u_i                                  u the optimizer's step
//   q_i = C(h_i - x^_i)                              C of settings.compress, tensor by tensor
//   x^_i += q_i,   s_i += sum_j W_ij q_j             x^ = s = 0 at first, so s_i = sum_j W_ij x^_j
//   x_i = h_i + gamma (s_i - (1 - W_ii) x^_i)
//
// Requires symmetric weights, every message (none may be lost permanently) and a gamma that is
// smaller for a coarser C (about 0.4 with sign, about 0.04 with the largest hundredth). Invariant:
// gossip keeps the mean of x, up to rounding. A change of the graph sets x^ and s to 0. Cost per
// rank and round: one message of C's bytes (kernels/codecs/compressor.hpp) to each neighbour; with
// sign, ceil(d / 8) bytes and one number per tensor of d elements. Memory: x, x^, s, the input of
// C, the optimizer.
#pragma once
#include "actors/algorithms/compressed_rule.hpp"

namespace grapevine {

class Choco final : public CompressedRule {
 public:
  static constexpr const char* kCompress = "sign";  // if settings.compress is empty

  explicit Choco(const RuleContext&);

  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  void enter(const Neighbourhood&) override;
  bool pulls() const override { return true; }
  Vec pull(int phase, std::span<const Received> in) override;
  void combine(double now, int phase, std::span<const Received> in) override;

 private:
  void encode();

  Buffer hat_, sum_, difference_;
};

}  // namespace grapevine
