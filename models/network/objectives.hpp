// The module's objectives: a classifier of samples, a language model of a text, and what the user
// has brought in files.
#pragma once
#include <exception>
#include <memory>

#include "kernels/check.hpp"
#include "models/network/module.hpp"

namespace grapevine {

std::unique_ptr<Objective> make_classifier(const ObjectiveSpec&, NetworkInputs&&);
std::unique_ptr<Objective> make_language_model(const ObjectiveSpec&, NetworkInputs&&);
Result<std::unique_ptr<Objective>> make_own_network(const ObjectiveSpec&, NetworkInputs&&);

/// LibTorch reports our bugs by exceptions; they end the process like any other bug of ours.
template <class Work>
auto checked(Work&& work) {
  try {
    return work();
  } catch (const std::exception& refusal) {
    check_detail::fail(__FILE__, __LINE__, "LibTorch accepts the call", refusal.what());
  }
}

}  // namespace grapevine
