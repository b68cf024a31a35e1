// How many cores this process may use, and how much of one a thread has used.
#pragma once

namespace grapevine {

/// The cores in its affinity mask (taskset, Slurm, Docker's cpusets), or as many as the quota of
/// its control group allows, if that is fewer. At least 1.
int usable_cores();

double thread_cpu_s();  // processor time of the calling thread, since it began

}  // namespace grapevine
