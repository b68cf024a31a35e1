// PairRule: the common base of the pairwise rules: x, a local optimizer, and how the difference m =
// x_i - x_j of an exchange is sent and applied.
//
//   whole models      m is the difference of the two vectors as sent
//   low-rank factors  compress=powergossip:rank=R (ours): exchange k of an edge is iteration k of
//                     edge_factors.hpp, and m the low-rank difference that both ends compute from
//                     the two messages: sum m R (odd k) or sum n R numbers, and the raw tensors
//   a random part     compress=random:P: m is the difference in that part, and 0 elsewhere. Both
//                     ends draw the same places from (seed, edge, exchange) (random_part.hpp)
//
// With wire bf16 both ends round what they send to bf16, which halves the bytes. Both ends compute
// the same m, with opposite signs, from the same two messages. Memory: x and the optimizer. Factors
// need their own memory and, in a rule with x~, one more x. Random parts need two more x.
#pragma once
#include <memory>

#include "actors/algorithms/rule.hpp"

namespace grapevine {

class PairFactors;

class PairRule : public PairwiseRule {
 public:
  /// REQUIRES: settings.compress is empty or a valid spec (edge_factors.hpp, random_part.hpp).
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
  /// Mixes by c; front - base becomes a step (Rule::take). Returns its length; on a device 0.
  double take_by(double c, Vec front, Vec base, Vec x_tilde, Vec finite);

  /// The message of `front`. If that is empty: of x mixed by c (kernels/passes/ops.hpp), or of x
  /// itself without x~.
  void write(const ExchangeKey&, double c, ConstVec x_tilde, ConstVec front, Payload& out);

  /// Mixes by c, then x -= alpha m, x~ -= alpha_tilde m; without x~ only x -= alpha m. False: the
  /// two messages do not match, and x and x~ are unchanged and not mixed.
  bool apply(const ExchangeKey&, const Payload& sent, const Payload& received, double c,
             double alpha, double alpha_tilde, Vec x_tilde);

  Optimizer optimizer_;
  Buffer x_;

 private:
  DType sent_as_;  // type of messages
  struct Lossy;
  PairFactors* factors() const;

  std::unique_ptr<Lossy> lossy_;  // null: whole models
};

}  // namespace grapevine
