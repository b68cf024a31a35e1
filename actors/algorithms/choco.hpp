// Choco: gossip with compressed messages, on copies that every rank keeps of what its neighbours
// have said so far.
// Paper: Koloskova, Stich, Jaggi. ICML 2019, arXiv:1902.00340; Koloskova, Lin, Stich, Jaggi. ICLR
// 2020, arXiv:1907.09356.
//
//   h_i = x_i + u_i                                  u the optimizer's step
//   q_i = C(h_i - x^_i)                              C of settings.compress, tensor by tensor
//   x^_i += q_i,   s_i += sum_j W_ij q_j             x^ = s = 0 at first, so s_i = sum_j W_ij x^_j
//   x_i = h_i + gamma (s_i - (1 - W_ii) x^_i)
//
// Requires symmetric weights, every message (none may be lost for good) and, the coarser C is,
// a gamma the smaller (with sign some .4, with the largest hundredth some .04). Invariant: gossip
// keeps the mean of x to rounding. A change of the graph sets x^ and s to 0. Cost per rank and
// round: one message of C's bytes (kernels/codecs/compressor.hpp) to each neighbour; with sign, per
// tensor of d elements, ceil(d / 8) and one number. Memory: x, x^, s, what C gets, the optimizer.
#pragma once
#include "actors/algorithms/compressed_rule.hpp"

namespace grapevine {

class Choco final : public CompressedRule {
 public:
  static constexpr const char* kCompress = "sign";  // where settings.compress is empty

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
