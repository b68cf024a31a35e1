#include "actors/algorithms/powergossip.hpp"

#include <cmath>
#include <utility>

namespace grapevine {

PowerGossip::PowerGossip(const RuleContext& context, const FactorEntry& entry)
    : RoundRule(context), gossiped_(execution_, layout_.size(), layout_.dtype()) {
  const PowerGossipSpec spec = *parse_power_gossip(settings_.compress);
  phases_ = static_cast<int>(spec.iterations);
  plan_ = std::make_shared<FactorPlan>(layout_, spec, entry);
  scale(execution_, 1, x_, gossiped_);
}

void PowerGossip::reset(double now, ConstVec x) {  // edges keep their factors
  RoundRule::reset(now, x);
  scale(execution_, 1, x_, gossiped_);
}

RuleState PowerGossip::state(double now) {
  RuleState state = RoundRule::state(now);
  state.add("x without the step of the round", gossiped_, Follows::rank);
  for (Edge& edge : edges_)
    edge.factors.name(state);
  return state;
}

void PowerGossip::on_gradient(double now, double lr, ConstVec g, Vec copy) {
  scale(execution_, 1, x_, gossiped_);
  RoundRule::on_gradient(now, lr, g, copy);
}

void PowerGossip::enter(const Neighbourhood& near) {
  std::vector<Edge> edges;
  edges.reserve(near.neighbours.size());
  for (const Neighbourhood::Neighbour& n : near.neighbours) {
    Edge* kept = nullptr;
    for (Edge& old : edges_)
      if (old.factors.edge().peer == n.rank) kept = &old;
    if (kept != nullptr) {
      edges.push_back({std::move(kept->factors), {}});
    } else {
      edges.push_back({EdgeFactors(execution_, plan_, seed_, rank_, {.peer = n.rank}), {}});
    }
  }
  edges_ = std::move(edges);
  RoundRule::enter(near);
}

void PowerGossip::write(int, size_t edge, Payload& out) {
  edges_[edge].factors.encode(gossiped_, out);
  edges_[edge].sent = out;
}

double PowerGossip::distance(size_t edge, const Payload& payload) {
  const Payload& sent = edges_[edge].sent;
  const bool alike = sent && sent.version == payload.version && sent.count == payload.count &&
                     sent.dtype == payload.dtype;
  if (!alike) return 0;  // the ends start again, and x does not change
  return std::sqrt(square_distance(execution_, sent.vec(), payload.vec()));
}

void PowerGossip::combine(double, int phase, std::span<const Received> in) {
  GV_CHECK(in.size() == edges_.size());
  const bool last = phase + 1 == phases_;
  for (size_t k = 0; k < in.size(); ++k) {
    const Payload sent = std::exchange(edges_[k].sent, {});
    if (!sent || !in[k] || in[k].share == 0) continue;
    const double alpha = settings_.gamma * near_.neighbours[k].weight * in[k].share;
    const Vec before = last ? Vec{} : gossiped_.vec();  // the next phase sends it
    if (!edges_[k].factors.jump(sent, in[k].payload, 0, alpha, alpha, x_, before)) ++reseeded_;
  }
}

RuleCounts PowerGossip::counts() const { return {.reseeded = reseeded_}; }

}  // namespace grapevine
