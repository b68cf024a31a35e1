// AD-PSGD: asynchronous gossip SGD with plain pairwise averaging, the baseline of A2CiD2.
// Paper: Lian, Zhang, Zhang, Liu. ICML 2018. arXiv:1710.06952; here with an additive jump, as in
// a2cid2.hpp.
//
//   at a gradient    x -= gamma u                  u the momentum step of the local gradient
//   at peer j        x -= 1/2 (x - x_j)            x, x_j: the two snapshots that crossed
//
// It is A2CiD2 with eta = 0 and alpha~ = 1/2, whose twin is then x itself and is not kept.
// Invariant: only gradients change the sum of x over all ranks.
// Cost: snapshot 2 words per parameter, jump 4, gradient 6 with momentum and the next copy. Memory:
// x, momentum.
//
// compress=powergossip:rank=R: as in a2cid2.hpp. Memory: the factors more.
#pragma once
#include <memory>

#include "actors/algorithms/edge_factors.hpp"
#include "actors/algorithms/rule.hpp"

namespace grapevine {

class AdPsgd final : public PairwiseRule {
 public:
  explicit AdPsgd(const RuleContext&);

  void read(double now, Vec out) override;
  void reset(double now, ConstVec x) override;
  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void add_conserved(double now, Vec sum) override;
  std::vector<Vec> vectors(double now) override;
  void resumed(uint64_t gradients) override { optimizer_.resume(gradients); }
  void set_eta(double, double) override {}
  size_t snapshot_bytes() const override;
  void snapshot(double now, const ExchangeKey&, Payload& out) override;
  void jump(double now, const ExchangeKey&, const Payload& sent, const Payload& received,
            double alpha_tilde) override;
  RuleCounts counts() const override {
    return {.reseeded = compressed_ ? compressed_->reseeded() : 0};
  }

 private:
  Execution execution_;
  Optimizer optimizer_;
  Buffer x_;
  std::unique_ptr<PairFactors> compressed_;
};

}  // namespace grapevine
