#!/bin/bash
# A run of four tasks that a scheduler may preempt and requeue: sbatch examples/deploy/slurm.sh
#
# Each task is a node: it finds the others by Slurm's variables, and goes on where its last
# checkpoint stands when the job is started again with the same RUN. It saves and drains when it is
# preempted, and two minutes before its time is up; the job then queues again until the run is done.
#SBATCH --job-name=grapevine
#SBATCH --ntasks=4
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=grapevine-%j.log
set -euo pipefail

GRAPEVINE=${GRAPEVINE:-grapevine}
RUN=${RUN:-$PWD/run-$SLURM_JOB_ID} # on a file system that all hosts see; kept over a requeue
KEY=${KEY:-$RUN/run.key}

mkdir -p "$RUN"
[ -e "$KEY" ] || "$GRAPEVINE" keygen "$KEY"

# Signals come to the tasks themselves, and the script waits for what they make of them. Not every
# version of srun takes the processors of a task from the job: it is told.
# shellcheck disable=SC2016
srun --kill-on-bad-exit=0 --cpus-per-task="$SLURM_CPUS_PER_TASK" \
  bash -c 'exec "$0" node --key "$1" --out "$2/node-$SLURM_PROCID" \
  --ranks 4 --threads "$SLURM_CPUS_PER_TASK" "${@:3}"' "$GRAPEVINE" "$KEY" "$RUN" "$@"

# Slurm takes a job that ends well before its grace time is over for one that is done.
if grep -qs '"preempted": true' "$RUN"/node-*/run.json; then
  scontrol requeue "$SLURM_JOB_ID"
fi
