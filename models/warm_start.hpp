// An objective whose ranks begin at a given point; another objective does everything else.
#pragma once
#include <memory>

#include "models/objective.hpp"

namespace grapevine {

/// REQUIRES: `start` has the objective's layout.
std::shared_ptr<Objective> begun_at(Buffer start, std::shared_ptr<Objective>);

}  // namespace grapevine
