#include "actors/algorithms/mean_estimation.hpp"

#include <algorithm>
#include <utility>

namespace grapevine {

MeanEstimation::MeanEstimation(const RuleContext& context)
    : RelayRule(context, false), sample_(execution_, size(), dtype()) {
  say();
}

void MeanEstimation::reset(double now, ConstVec x) {
  RelayRule::reset(now, x);
  seen_ = {};
}

RuleState MeanEstimation::state(double now) {
  RuleState state = RelayRule::state(now);
  state.add("sample", sample_, Follows::rank);
  for (size_t tree = 0; tree < seen_.size(); ++tree)
    state.add("samples in x, tree " + std::to_string(tree), seen_[tree], Follows::rank);
  return state;
}

void MeanEstimation::enter(const Neighbourhood& near) {
  RelayRule::enter(near);
  seen_.fill(*std::min_element(seen_.begin(), seen_.end()));
}

void MeanEstimation::on_gradient(double, double, ConstVec g, Vec) {
  grapevine::combine(execution_, {{{1, x_}, {-1, g}}}, sample_);
  say();
}

void MeanEstimation::take_in(size_t tree) {
  const double seen = std::exchange(seen_[tree], seen_[tree] + relay_.count(tree));
  if (tree == 0)
    std::fill(seen_.begin() + static_cast<long>(relay_.trees()), seen_.end(), seen_[0]);
  relay_.sum(execution_, tree, 1 / seen_[tree], 1 / seen_[tree], seen / seen_[tree], x_, x_);
}

}  // namespace grapevine
