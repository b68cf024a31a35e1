// PairRule: what the pairwise rules have in common: x, a local optimizer, and messages of x.
#pragma once
#include "actors/algorithms/pair_messages.hpp"

namespace grapevine {

class PairRule : public PairwiseRule {
 public:
  explicit PairRule(const RuleContext&);

  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  void add_conserved(double now, Vec sum) override;
  size_t snapshot_bytes() const override { return messages_->bytes(); }
  RuleCounts counts() const override { return {.reseeded = messages_->reseeded()}; }

 protected:
  Execution execution_;
  Optimizer optimizer_;
  Buffer x_;
  std::unique_ptr<PairMessages> messages_;
};

}  // namespace grapevine
