#include "actors/algorithms/choco.hpp"

namespace grapevine {

Choco::Choco(const RuleContext& context)
    : CompressedRule(context, kCompress),
      hat_(execution_, size(), dtype()),
      sum_(execution_, size(), dtype()),
      difference_(execution_, size(), dtype()) {}

void Choco::encode() {
  grapevine::combine(execution_, {{{1, x_}, {-1, hat_}}}, difference_);
  CompressedRule::encode(difference_);
}

void Choco::on_gradient(double now, double lr, ConstVec g, Vec copy) {
  CompressedRule::on_gradient(now, lr, g, copy);
  encode();
}

void Choco::reset(double now, ConstVec x) {
  CompressedRule::reset(now, x);
  scale(execution_, 0, hat_, hat_);
  scale(execution_, 0, sum_, sum_);
}

RuleState Choco::state(double now) {
  RuleState state = CompressedRule::state(now);
  state.add("x^", hat_, Follows::graph);
  state.add("s", sum_, Follows::graph);
  return state;
}

void Choco::enter(const Neighbourhood& near) {
  CompressedRule::enter(near);
  scale(execution_, 0, hat_, hat_);
  scale(execution_, 0, sum_, sum_);
  encode();  // a round in progress is written again
}

// difference_ = gamma (s - (1 - W_ii) x^)
Vec Choco::pull(int, std::span<const Received> in) {
  GV_CHECK(in.size() == near_.neighbours.size());
  add_own(1, hat_);
  for (size_t k = 0; k < in.size(); ++k)  // no message: the neighbour has finished, and x^_j stays
    add(k, in[k].payload, near_.neighbours[k].weight, sum_);
  const double gamma = settings_.gamma;
  grapevine::combine(execution_, {{{gamma, sum_}, {-gamma * (1 - near_.self_weight), hat_}}},
                     difference_);
  return difference_.vec();
}

void Choco::combine(double, int, std::span<const Received>) {
  axpy(execution_, 1, difference_, x_);
  ++round_;
}

}  // namespace grapevine
