#include "models/network/module.hpp"

#include <ATen/Parallel.h>

#include "models/heap.hpp"
#include "models/network/objectives.hpp"

extern "C" __attribute__((visibility("default"))) void grapevine_network_v3(
    const grapevine::ObjectiveSpec& spec, grapevine::NetworkInputs&& inputs,
    std::unique_ptr<grapevine::Objective>& made) {
  grapevine::prepare_heap();
  at::set_num_threads(1);  // also of threads that start later; results then depend on no split
  made = inputs.text ? grapevine::make_language_model(spec, std::move(inputs))
                     : grapevine::make_classifier(spec, std::move(inputs));
}
