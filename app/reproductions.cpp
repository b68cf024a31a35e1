#include <algorithm>
#include <cmath>

#include "app/reproduce.hpp"

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
      {"quadratics", "rounds to 1e-6 on random quadratics, 6 to 48 ranks, at the best step size",
       true, reproduce_quadratics},
      {"consensus", "PowerGossip's rounds and bits to agreement on a ring of 8", true,
       reproduce_consensus},
      {"message-loss", "what is left of convergence when links lose messages", true,
       reproduce_losses},
  };
  return kAll;
}

}  // namespace grapevine
