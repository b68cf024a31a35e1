// The border of the network module: the one function that libgrapevine-network.so exports.
//
// The caller has read the data, dealt it out and made the plan; the module adds what needs
// LibTorch. Its name carries a version that changes with anything that crosses the border, so a
// module of another build is refused instead of misread.
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
  std::shared_ptr<const DataSet> data;  // of a classifier
  std::shared_ptr<const TextSet> text;  // of a language model
  std::shared_ptr<const OwnData> own;   // from the user's file: one of the three is there
  Dealt dealt;                          // the training samples, windows of a text
};

/// `made` begins as an error.
using MakeNetwork = void(const ObjectiveSpec&, NetworkInputs&&,
                         Result<std::unique_ptr<Objective>>& made);

}  // namespace grapevine
