// The interface of the network module: the one function that libgrapevine-network.so exports.
//
// The caller reads the data, partitions them and makes the plan; the module adds the code that
// needs LibTorch. The function's name carries a version, which changes with every type that crosses
// the interface. So a module of another build is refused instead of misread.
#pragma once
#include <memory>

#include "models/data/data_set.hpp"
#include "models/data/own_data.hpp"
#include "models/data/text_set.hpp"
#include "models/objective.hpp"
#include "models/partition.hpp"
#include "models/zoo.hpp"

namespace grapevine {

inline constexpr const char* kNetworkModuleFile = "libgrapevine-network.so";
inline constexpr const char* kNetworkModuleSymbol = "grapevine_network_v9";

struct NetworkInputs {
  NetworkPlan plan;
  std::shared_ptr<const DataSet> data;  // for a classifier
  std::shared_ptr<const TextSet> text;  // for a language model
  std::shared_ptr<const OwnData> own;   // from the user's file; exactly one of the three is set
  Dealt dealt;                          // the training samples; windows of a text
};

/// `made` is an error at the call.
using MakeNetwork = void(const ObjectiveSpec&, NetworkInputs&&,
                         Result<std::unique_ptr<Objective>>& made);

}  // namespace grapevine
