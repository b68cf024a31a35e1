#include "actors/algorithms/random_gossip.hpp"

#include <cmath>
#include <limits>
#include <vector>

namespace grapevine {

RandomGossip::RandomGossip(const RuleContext& context)
    : GossipRule(context),
      part_(context),
      own_(execution_, part_.size(), dtype()),
      mean_(execution_, part_.size(), dtype()) {}

RuleState RandomGossip::state(double now) {
  RuleState state = GossipRule::state(now);
  state.add("round", round_, Follows::model);
  return state;
}

void RandomGossip::write(int, size_t, Payload& out) {
  part_.take(round_, x_, own_);
  scale(execution_, 1, own_, out.writable(dtype(), own_.size()));
  out.version = static_cast<uint32_t>(round_);
}

double RandomGossip::distance(size_t, const Payload& payload) {
  if (payload.dtype != dtype() || payload.count != own_.size())
    return std::numeric_limits<double>::quiet_NaN();
  return std::sqrt(square_distance(execution_, payload.vec(), own_));
}

// A message of another round has other places. Both ends notice it and do without.
void RandomGossip::combine(double, int, std::span<const Received> in) {
  std::vector<Received> fitting(in.begin(), in.end());
  for (Received& received : fitting)
    if (received && received.payload.version != static_cast<uint32_t>(round_)) received = {};
  scale(execution_, 1, own_, mean_);
  gossip_.average(execution_, fitting, 0, mean_);
  axpy(execution_, -1, own_, mean_);
  part_.add(round_, 1, mean_, x_);
  ++round_;
}

}  // namespace grapevine
