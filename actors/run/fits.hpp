// Whether the ranks of a process can go on from what an earlier life of the run has left.
#pragma once
#include "actors/settings/checkpoint_orders.hpp"
#include "actors/settings/settings.hpp"

namespace grapevine {

class Thrown;  // actors/run/guarded.hpp

/// Error (user): more ranks than are here, or what a record lacks, or has in another size or type.
Status fits(const Settings&, const Objective&, const Resumption&);

/// The same; what the method's rule throws meanwhile is kept.
Status fits(const Settings&, const Objective&, const Resumption&, Thrown&);

}  // namespace grapevine
