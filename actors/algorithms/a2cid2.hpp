// A2CiD2: asynchronous gossip SGD, accelerated by a continuous local momentum.
// Paper: Nabli, Belilovsky, Oyallon. NeurIPS 2023. arXiv:2306.08289.
//
// A rank keeps two copies of the model, x and x~. Between events they attract each other; at an
// event both jump. With u the momentum step of the local gradient and x_j the parameters of peer j:
//
//   between events   dx = eta (x~ - x) dt          dx~ = eta (x - x~) dt
//   at a gradient    x -= gamma u                  x~ -= gamma u
//   at peer j        x -= alpha (x - x_j)          x~ -= alpha~ (x - x_j)
//
// The attraction is solved exactly: x + x~ stays, x~ - x decays as exp(-2 (theta - theta')), theta
// = integral of eta dt the *phase*. So x and x~ are kept as of the phase of their last rewriting,
// and a snapshot reads them without writing.
//
// Departure from the paper: x - x_j is taken between the two snapshots that crossed the wire, and
// the jump is dated back to its snapshot: the part of it that lies in x~ - x decays as the state
// has since. With m = x_i - x_j as sent, d(phase) since the snapshot, q = (1 - exp(-2 d(phase))) /
// 2 and z = q (alpha~ - alpha):
//
//   x -= (alpha + z) m          x~ -= (alpha~ - z) m
//
// So what i gains j loses however late the answer is, and nobody is ever locked.
// Invariant: only gradients change the sum of x + x~ over all ranks.
//
// reference_order, a control: as the published code has it, a rank sends x as it lies in memory,
// mixes then, and subtracts what it got from its own mixed x. The sum is not kept.
//
// Cost: snapshot 3 words per parameter, jump 6, gradient 8 with momentum and the next copy. Memory:
// x, x~, momentum.
//
// compress=powergossip:rank=R (ours): exchange k of an edge is iteration k of edge_factors.hpp, and
// m the low-rank difference that both ends get from the two messages; all else stays. Snapshots
// are sum m R (odd k) or sum n R numbers and the raw tensors. Memory: one more x, and the factors.
#pragma once
#include <memory>

#include "actors/algorithms/edge_factors.hpp"
#include "actors/algorithms/rule.hpp"
#include "topologies/spectrum.hpp"

namespace grapevine {

struct A2cid2Constants {
  double eta = 0;  // per unit of the time that the rates are in
  double alpha_tilde = 0.5;
};

constexpr double kAlpha = 0.5;

/// Section 3, the optimal ones: eta = 1 / (2 sqrt(chi1 chi2)), alpha = 1/2, alpha~ = 1/2 sqrt(chi1
/// / chi2).
A2cid2Constants a2cid2_constants(const Spectrum& graph);

/// For pairing without repeats on a graph of mean degree d (of ranks with more than one neighbour):
/// the averaging walk leaves its last partner with certainty and spreads d / (d-1) times faster, so
/// the slow modes see chi1 (d-1) / d: eta times s, alpha~ over s, s = sqrt(d / (d-1)).
A2cid2Constants without_repeats(A2cid2Constants, const Topology&);

class A2cid2 final : public PairwiseRule {
 public:
  explicit A2cid2(const RuleContext&);

  void read(double now, Vec out) override;
  void reset(double now, ConstVec x) override;
  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void add_conserved(double now, Vec sum) override;
  std::vector<Vec> vectors(double now) override;
  void resumed(uint64_t gradients) override { optimizer_.resume(gradients); }
  void set_eta(double now, double eta) override;
  size_t snapshot_bytes() const override;
  void snapshot(double now, const ExchangeKey&, Payload& out) override;
  void jump(double now, const ExchangeKey&, const Payload& sent, const Payload& received,
            double alpha_tilde) override;
  bool conserves() const override { return !reference_order_; }
  RuleCounts counts() const override {
    return {.reseeded = compressed_ ? compressed_->reseeded() : 0};
  }

 private:
  void advance(double now);
  double attraction() const;  // from the phase of x and x~ in memory to the present one

  Execution execution_;
  Optimizer optimizer_;
  Buffer x_, x_tilde_;
  double eta_ = 0;
  double now_ = 0;      // never decreases
  double phase_ = 0;    // at now_
  double written_ = 0;  // phase at which x_ and x_tilde_ are in memory
  std::unique_ptr<PairFactors> compressed_;
  bool reference_order_;
  Buffer shown_;  // compressed: x as of a snapshot; reference_order: x mixed after it
};

}  // namespace grapevine
