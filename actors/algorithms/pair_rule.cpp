#include "actors/algorithms/pair_rule.hpp"

#include "actors/algorithms/edge_factors.hpp"

namespace grapevine {

PairRule::PairRule(const RuleContext& context)
    : PairwiseRule(context.execution),
      optimizer_(execution_, context.layout, context.settings.optimizer),
      x_(execution_, context.layout.size(), context.layout.dtype()),
      sent_as_(context.settings.wire == Wire::bf16 ? DType::bf16 : x_.dtype()) {
  if (!context.settings.compress.empty()) factors_ = std::make_unique<PairFactors>(context);
  scale(execution_, 1, context.x, x_);
}

PairRule::PairRule(PairRule&&) noexcept = default;
PairRule::~PairRule() = default;

void PairRule::reset(double, ConstVec x) {
  scale(execution_, 1, x, x_);
  optimizer_.reset(execution_);
}

RuleState PairRule::state(double) {
  RuleState state;
  state.add("x", x_, Follows::model);
  optimizer_.name(state, Follows::model);
  if (factors_) factors_->name(state);
  return state;
}

void PairRule::meet(const ExchangeKey& key) {
  if (factors_) factors_->meet(key);
}

void PairRule::add_conserved(double, Vec sum) { accumulate(execution_, x_, sum); }

size_t PairRule::snapshot_bytes() const {
  return factors_ ? factors_->bytes() : x_.size() * size_of(sent_as_);
}

RuleCounts PairRule::counts() const { return {.reseeded = factors_ ? factors_->reseeded() : 0}; }

void PairRule::write(const ExchangeKey& key, double c, ConstVec x_tilde, Payload& out) {
  if (factors_) return factors_->write(key, c, x_, x_tilde, out);
  extrapolate(execution_, c, x_, x_tilde, out.writable(sent_as_, x_.size()));
}

bool PairRule::apply(const ExchangeKey& key, const Payload& sent, const Payload& received, double c,
                     double alpha, double alpha_tilde, Vec x_tilde) {
  if (factors_) return factors_->jump(key, sent, received, c, alpha, alpha_tilde, x_, x_tilde);
  mix_and_jump(execution_, c, alpha, alpha_tilde, sent.vec(), received.vec(), x_, x_tilde);
  return true;
}

}  // namespace grapevine
