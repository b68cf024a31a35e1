// The module's objectives: a classifier of samples, a language model of a text, and networks and
// samples from the user's files.
#pragma once
#include <memory>

#include "models/module.hpp"

namespace grapevine {

std::unique_ptr<Objective> make_classifier(const ObjectiveSpec&, NetworkInputs&&);
std::unique_ptr<Objective> make_language_model(const ObjectiveSpec&, NetworkInputs&&);
Result<std::unique_ptr<Objective>> make_own_network(const ObjectiveSpec&, NetworkInputs&&);

}  // namespace grapevine
