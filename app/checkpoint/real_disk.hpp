// The disk of this machine, for checkpoints.
#pragma once
#include "app/checkpoint/checkpoint_reader.hpp"
#include "app/checkpoint/disk_effect.hpp"

namespace grapevine {

/// Carries out the operations in order. Error (world): the path and the system's message for the
/// first one that fails; later ones are not carried out.
Status carry_out(const DiskEffects&);

/// Files of at most 1 TiB.
DiskView real_disk();

}  // namespace grapevine
