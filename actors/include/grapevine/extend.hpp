// Your own methods, graphs, compressors and data sets: register_method, register_topology,
// register_compressor, register_data_set. Settings then name them like those of the library. Each
// function returns a Status. Call it before the first run that uses the new name.
#pragma once
#include <grapevine/grapevine.hpp>

#include "actors/algorithms/method_registry.hpp"
#include "actors/algorithms/pair_rule.hpp"
#include "kernels/base/random.hpp"
#include "kernels/codecs/compressor.hpp"
#include "models/data/data_set.hpp"
#include "topologies/topology.hpp"
