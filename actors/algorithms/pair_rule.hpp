// PairRule: what the pairwise rules have in common: x, a local optimizer, and how the difference
// m = x_i - x_j of an exchange is sent and acts.
//
//   whole models      m is the difference of the two vectors as sent: of half the bytes where the
//                     settings' wire is bf16, to which both ends round what they send
//   low-rank factors  compress=powergossip:rank=R (ours): exchange k of an edge is iteration k of
//                     edge_factors.hpp, and m the low-rank difference that both ends get from the
//                     two messages: sum m R (odd k) or sum n R numbers, and the raw tensors
//   a random part     compress=random:P: m is the difference there, and 0 elsewhere; the places are
//                     drawn from (seed, edge, exchange), the same at both ends (random_part.hpp)
//
// Both ends get the same m, with opposite signs, from the same two messages. Memory: x, the
// optimizer's; with factors those, and one more x where the rule has a twin; with parts two more x.
#pragma once
#include <memory>

#include "actors/algorithms/rule.hpp"

namespace grapevine {

class PairFactors;

class PairRule : public PairwiseRule {
 public:
  /// REQUIRES: settings.compress is empty or a spec that parses (edge_factors.hpp,
  /// random_part.hpp).
  explicit PairRule(const RuleContext&);
  PairRule(PairRule&&) noexcept;
  ~PairRule() override;

  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  void meet(const ExchangeKey&) override;
  void add_conserved(double now, Vec sum) override;
  size_t snapshot_bytes() const override;
  RuleCounts counts() const override;

 protected:
  /// The message of `front`; if it is empty, of x mixed by c (kernels/passes/ops.hpp), or of x
  /// itself where there is no twin.
  void write(const ExchangeKey&, double c, ConstVec x_tilde, ConstVec front, Payload& out);

  /// Mixes by c, then x -= alpha m, x~ -= alpha_tilde m; without a twin x -= alpha m alone. False:
  /// the two messages do not fit together, and x and x~ are as they were, not mixed.
  bool apply(const ExchangeKey&, const Payload& sent, const Payload& received, double c,
             double alpha, double alpha_tilde, Vec x_tilde);

  Optimizer optimizer_;
  Buffer x_;

 private:
  DType sent_as_;  // whole models
  struct Lossy;
  PairFactors* factors() const;

  std::unique_ptr<Lossy> lossy_;  // null: whole models
};

}  // namespace grapevine
