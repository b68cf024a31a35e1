// The peers of a process, from its launcher's environment: torchrun's variables, Slurm's, or
// mpirun's.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/options/options.hpp"

namespace grapevine {

/// A variable's value; none: it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;

Environment this_environment();

/// The name of process `number` of those that `starter` has started: STARTER.NUMBER. No process of
/// another starter has it. If the name is too long, or has characters that a file's name or an
/// address cannot have, a hash replaces the rest.
std::string numbered_name(const std::string& starter, int number);

/// Completes `peers` for a process with `ranks` ranks on `host`. Does nothing if they have an
/// address, or name, ranks and their sum, as from `launch`.
///
/// torchrun (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE): process 0 listens at the master's address
/// (at the next port, if torchrun's own store has that port), and the others join it.
/// Slurm (SLURM_PROCID, SLURM_NTASKS or SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST), in a step:
/// process p listens at a port of the job + p and joins the first processes of the first hosts.
/// mpirun (OMPI_COMM_WORLD_*, or PMI_RANK and PMI_SIZE), on one host: all listen at unix sockets,
/// also with a run key, and join process 0 by its name, for which they wait. On several hosts of a
/// job of Slurm: as under Slurm, and process 0 is at the job's first host.
/// Each process gets the ranks of its number, and a name from its number and its starter, which is
/// the same after a restart: torch-RUN.p (TORCHELASTIC_RUN_ID) or torch-MASTER-PORT.p,
/// slurm-JOB.STEP.p, mpi-JOB.p. A single process is treated as if it had no launcher, and so is one
/// whose environment has none of these numbers. An empty variable counts as not set.
/// Errors (user): the variable, its value and what is accepted; one of two variables without the
/// other.
Status find_peers(const Environment&, const std::string& host, int ranks, PeerOptions& peers);

/// "n[1-3,07],m2" as {"n1", "n2", "n3", "n07", "m2"}. An error names the variable and the part that
/// cannot be read.
Result<std::vector<std::string>> expand_host_list(const std::string& list,
                                                  const char* variable = "SLURM_STEP_NODELIST");

}  // namespace grapevine
