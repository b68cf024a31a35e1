// RandomGossip: D-PSGD on a random part of the parameters in each round (random_part.hpp), the same
// part on all ranks. On the complete graph it is SPARTA (Exo, 2025), which uses a part of 0.005.
//
//   h_i     = x_i + u_i                         u the optimizer's step
//   x_i,k   = sum_j W_ij h_j,k                  k in the part of the round, drawn from its number
//   x_i,k   = h_i,k                             elsewhere
//
// Requires symmetric weights whose rows sum to 1.
// Invariant: gossip keeps the mean of x while no message is lost. On the complete graph a round
// reduces the squared distance of all ranks by the sent share, on average.
// Cost per rank and round: one message of that share of the model to each neighbour. Memory: x, the
// optimizer, two parts.
#pragma once
#include "actors/algorithms/gossip.hpp"
#include "actors/algorithms/random_part.hpp"

namespace grapevine {

class RandomGossip final : public GossipRule {
 public:
  explicit RandomGossip(const RuleContext&);

  RuleState state(double now) override;
  size_t message_bytes() const override { return part_.size() * size_of(dtype()); }
  double distance(size_t edge, const Payload&) override;
  void write(int phase, size_t edge, Payload& out) override;
  void combine(double now, int phase, std::span<const Received> in) override;

 private:
  RandomPart part_;
  Buffer own_, mean_;   // of this round's part
  uint64_t round_ = 0;  // rounds of the model so far
};

}  // namespace grapevine
