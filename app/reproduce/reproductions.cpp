#include <algorithm>
#include <cmath>

#include "app/reproduce/reproduce.hpp"

namespace grapevine {

bool Claim::ok() const {
  const double off = std::abs(measured - expected);
  switch (accept) {
    case Accept::absolute: return off <= tolerance;
    case Accept::relative: return off <= tolerance * std::abs(expected);
    case Accept::factor:
      return measured > 0 && measured <= tolerance * expected && expected <= tolerance * measured;
    case Accept::at_most: return measured <= expected;
    case Accept::at_least: return measured >= expected;
  }
  return false;
}

std::span<const Reproduction> reproductions() {
  static constexpr Reproduction kAll[] = {
      {"a2cid2-communications", "exchanges to consensus by graph, and how they grow", true,
       reproduce_communications},
      {"scalar", "the scalar problem, 16 ranks, to 1e-10", true, reproduce_scalar},
      {"matrix", "the matrix problem, 8 ranks, to 1e-10", true, reproduce_matrix},
      {"delivery", "the round in which the value of a rank reaches each other rank", true,
       reproduce_delivery},
      {"relay-counts", "the number of ranks in an average along a tree", true,
       reproduce_relay_counts},
      {"learning-rate", "the factor on RelaySGD's learning rate, published and measured", true,
       reproduce_learning_rate},
      {"mean-estimation", "the error of relayed means, relative to the mean of all samples", true,
       reproduce_mean_estimation},
      {"quadratics", "rounds to 1e-6 on random quadratics, 6 to 48 ranks, at the best step size",
       true, reproduce_quadratics},
      {"consensus", "PowerGossip's rounds and bits to agreement on a ring of 8", true,
       reproduce_consensus},
      {"bytes", "what a rank sends of ResNet-20 and of an LSTM, by the counters", true,
       reproduce_bytes},
      {"message-loss", "convergence when links lose messages", true, reproduce_losses},
      {"local-steps", "methods with inner steps, compared with plain loops, to 1e-12", true,
       reproduce_local_steps},
      {"straggler", "one rank three times slower: idle time of the others, time to the target",
       true, reproduce_straggler},
      {"heterogeneity", "a network on Fashion-MNIST; each rank has other labels", false,
       reproduce_heterogeneity},
  };
  return kAll;
}

}  // namespace grapevine
