// How many cores this process may use.
#pragma once

namespace grapevine {

/// Those that its affinity mask has (taskset, Slurm, Docker's cpusets), or as many as the quota of
/// its control group pays for, where that is fewer. At least 1.
int usable_cores();

}  // namespace grapevine
