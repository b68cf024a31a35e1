// The border of the network module: the one function that libgrapevine-network.so exports.
//
// The caller has read the data and made the plan; the module adds what needs LibTorch. Its name
// carries a version that changes with anything that crosses the border, so a module of another
// build is refused instead of misread.
#pragma once
#include <memory>

#include "models/data/data_set.hpp"
#include "models/objective.hpp"
#include "models/zoo.hpp"

namespace grapevine {

inline constexpr const char* kNetworkModuleFile = "libgrapevine-network.so";
inline constexpr const char* kNetworkModuleSymbol = "grapevine_network_v2";

using MakeNetwork = void(const ObjectiveSpec&, NetworkPlan&, std::shared_ptr<const DataSet>,
                         std::unique_ptr<Objective>& made);

}  // namespace grapevine
