// Methods, graphs, compressors and data sets of your own, which settings then name like those of
// the library: register_method, register_topology, register_compressor, register_data_set. Each
// answers a Status; call them before the first run that wants what they add.
#pragma once
#include <grapevine/grapevine.hpp>

#include "actors/algorithms/method_registry.hpp"
#include "actors/algorithms/pair_rule.hpp"
#include "kernels/base/random.hpp"
#include "kernels/codecs/compressor.hpp"
#include "models/data/data_set.hpp"
#include "topologies/topology.hpp"
