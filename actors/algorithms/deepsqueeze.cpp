#include "actors/algorithms/deepsqueeze.hpp"

namespace grapevine {

DeepSqueeze::DeepSqueeze(const RuleContext& context)
    : CompressedRule(context, kCompress), delta_(execution_, size(), dtype()) {}

void DeepSqueeze::on_gradient(double now, double lr, ConstVec g, Vec copy) {
  CompressedRule::on_gradient(now, lr, g, copy);
  axpy(execution_, 1, x_, delta_);  // v
  encode(delta_);
  add_own(-1, delta_);
}

void DeepSqueeze::reset(double now, ConstVec x) {
  CompressedRule::reset(now, x);
  scale(execution_, 0, delta_, delta_);
}

RuleState DeepSqueeze::state(double now) {
  RuleState state = CompressedRule::state(now);
  state.add("delta", delta_, Follows::rank);
  return state;
}

// heard_ = gamma sum_j W_ij (q_j - q)
Vec DeepSqueeze::pull(int, std::span<const Received> in) {
  GV_CHECK(in.size() == near_.neighbours.size());
  if (heard_.size() == 0) heard_ = Buffer(execution_, size(), dtype());
  fill(execution_, 0, heard_);
  double received = 0;  // weight
  for (size_t k = 0; k < in.size(); ++k) {
    const double weight = near_.neighbours[k].weight;
    if (add(k, in[k].payload, settings_.gamma * weight, heard_)) received += weight;
  }
  add_own(-settings_.gamma * received, heard_);
  return heard_.vec();
}

void DeepSqueeze::combine(double, int, std::span<const Received>) {
  axpy(execution_, 1, heard_, x_);
  ++round_;
}

}  // namespace grapevine
