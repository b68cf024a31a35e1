// How many cores this process may use.
#pragma once

namespace grapevine {

/// The cores in its affinity mask (taskset, Slurm, Docker's cpusets), or as many as the quota of
/// its control group allows, if that is fewer. At least 1.
int usable_cores();

}  // namespace grapevine
