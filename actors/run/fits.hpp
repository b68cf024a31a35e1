// Whether the ranks of a process can resume from the records of an earlier life of the run.
#pragma once
#include "actors/settings/checkpoint_orders.hpp"
#include "actors/settings/settings.hpp"

namespace grapevine {

/// Error (user): more records than ranks here, or a record lacks a vector, or has one of another
/// size or type.
Status fits(const Settings&, const Objective&, const Resumption&);

}  // namespace grapevine
