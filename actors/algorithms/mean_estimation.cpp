#include "actors/algorithms/mean_estimation.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace grapevine {

MeanEstimation::MeanEstimation(const RuleContext& context)
    : RoundRule(context), relay_(size(), dtype(), false), sample_(size(), dtype()), seen_(1, 0.0) {
  relay_.say(execution_, sample_);
}

void MeanEstimation::reset(double now, ConstVec x) {
  RoundRule::reset(now, x);
  relay_.forget();
  relay_.say(execution_, sample_);
  std::fill(seen_.begin(), seen_.end(), 0.0);
  count_ = 1;
}

void MeanEstimation::enter(const Neighbourhood& near) {
  RoundRule::enter(near);
  relay_.enter(near);
  relay_.say(execution_, sample_);
  seen_.assign(relay_.trees(), *std::min_element(seen_.begin(), seen_.end()));
}

void MeanEstimation::on_gradient(double, double, ConstVec g, Vec) {
  grapevine::combine(execution_, std::array{Term{1, x_}, Term{-1, g}}, sample_);
  relay_.say(execution_, sample_);
}

void MeanEstimation::write(int, size_t edge, Payload& out) { relay_.write(execution_, edge, out); }

void MeanEstimation::combine(double, int, std::span<const Payload> in) {
  relay_.receive(in);
  count_ = relay_.count(0);
  for (size_t tree = 0; tree < relay_.trees(); ++tree) {
    count_ = std::min(count_, relay_.count(tree));
    const double seen = std::exchange(seen_[tree], seen_[tree] + relay_.count(tree));
    relay_.sum(execution_, tree, 1 / seen_[tree], 1 / seen_[tree], seen / seen_[tree], x_, x_);
  }
}

}  // namespace grapevine
