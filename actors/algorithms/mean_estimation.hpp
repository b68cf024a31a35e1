// Distributed mean estimation: each round every rank draws one sample of its own, and all estimate
// the mean of all samples. Paper: Vogels et al. NeurIPS 2021. arXiv:2110.04175 (appendix).
//
//   s_i = x_i - g_i                          the sample: the objective's gradient is x - s
//   S_i = s_i + sum_j m_ji                   relayed (relay.hpp)
//   n_i = 1   + sum_j c_ji
//   x_i = sum_t S_i / sum_t n_i              over all rounds so far, kept as a running mean
//
// After T rounds x_i is the mean of sum_j max(T - delta_ij, 0) samples, with delta_ij = max(hops(i,
// j) - 1, 0). Each has variance 1, so this number is the inverse of the mean squared error.
//
// Requires a tree, or several on the same ranks. Uses neither learning rate nor optimizer.
// Invariant: x_i has no sample twice. A lost sample is missing there and in the count.
// Cost per rank and round: one message of d + 1 numbers to each neighbour. Memory: x, the sample,
// one message of each neighbour.
#pragma once
#include <array>

#include "actors/algorithms/relay.hpp"

namespace grapevine {

class MeanEstimation final : public RelayRule {
 public:
  explicit MeanEstimation(const RuleContext&);

  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  ConstVec step() override { return sample_.vec(); }
  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void enter(const Neighbourhood&) override;

 private:
  ConstVec said() const override { return sample_; }
  void take_in(size_t tree) override;

  Buffer sample_;
  std::array<double, Relay::kMostTrees> seen_{};  // samples in x, by tree; the rest as tree 0
};

}  // namespace grapevine
