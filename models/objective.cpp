#include "models/objective.hpp"

#include "models/analytic.hpp"
#include "models/network_loader.hpp"

namespace grapevine {

Result<std::unique_ptr<Objective>> make_objective(const ObjectiveSpec& spec) {
  if (spec.ranks < 1) {
    return user_error("ranks is " + std::to_string(spec.ranks) + ", accepted: 1 or more");
  }
  if (spec.threads < 1) {
    return user_error("threads is " + std::to_string(spec.threads) + ", accepted: 1 or more");
  }
  if (spec.objective == "consensus") return make_consensus(spec);
  if (spec.objective == "quadratic") return make_quadratic(spec);
  if (spec.objective == "network") return make_network(spec);
  return user_error("objective is \"" + spec.objective +
                    "\", accepted: network, quadratic, consensus");
}

}  // namespace grapevine
