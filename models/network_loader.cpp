#include "models/network_loader.hpp"

namespace grapevine {

Result<std::unique_ptr<Objective>> make_network(const ObjectiveSpec& spec) {
  return world_error("model " + spec.model + " needs the network module, which this build lacks");
}

}  // namespace grapevine
