// The disk of this machine, for what writes and reads checkpoints.
#pragma once
#include "app/checkpoint/checkpoint_reader.hpp"
#include "app/checkpoint/disk_effect.hpp"

namespace grapevine {

/// Lets them happen, one after the other. Error (world): the first that cannot, the path and what
/// the system says; what comes after it has not happened.
Status carry_out(const DiskEffects&);

/// Files of at most 1 TiB.
DiskView real_disk();

}  // namespace grapevine
