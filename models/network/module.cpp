#include "models/module.hpp"

#include <ATen/Parallel.h>

#include "models/heap.hpp"
#include "models/network/objectives.hpp"

extern "C" __attribute__((visibility("default"))) void grapevine_network_v9(
    const grapevine::ObjectiveSpec& spec, grapevine::NetworkInputs&& inputs,
    grapevine::Result<std::unique_ptr<grapevine::Objective>>& made) {
  grapevine::prepare_heap();
  // Also for threads that start later; results then do not depend on a split.
  at::set_num_threads(1);
  if (inputs.text)
    made = grapevine::make_language_model(spec, std::move(inputs));
  else if (inputs.own || spec.model.ends_with(".pt"))
    made = grapevine::make_own_network(spec, std::move(inputs));
  else
    made = grapevine::make_classifier(spec, std::move(inputs));
}
