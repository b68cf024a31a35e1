// The number of cores that this process may use, and the processor time of a thread.
#pragma once

namespace grapevine {

/// The cores in the process's affinity mask (taskset, Slurm, Docker's cpusets), or the quota of its
/// control group if that is smaller. At least 1.
int usable_cores();

double thread_cpu_s();  // processor time of the calling thread, since it began

}  // namespace grapevine
