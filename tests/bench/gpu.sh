#!/usr/bin/env bash
# What a GPU has to show, in one command: builds, runs the tests that need a GPU, compute-sanitizer over them,
# gpu_facts and the benches, and writes gpu.json, gpu.md and logs.tar.gz. Each step has its limit.
#
#   tests/bench/gpu.sh [FOLDER [STEP...]]       FOLDER: for the three files, build/gpu unless told
#
# GPU_WITHIN=SECONDS leaves out the steps that might not end by then. GPU_BUILD=PLACE takes the programs that
# gpu_pack.sh has built from there, on a machine where nothing can be built.
#
# It fetches nothing. What it looks for is a line each, with what its absence leaves out; where the program itself
# cannot be built, gpu_facts is, by nvcc alone. The steps stand in gpu_steps.py. Status 77 without a GPU, 1 where
# something that was run did not hold.
set -euo pipefail
folder=$(realpath -m "${1:-$(dirname "${BASH_SOURCE[0]}")/../../build/gpu}")
shift $(($# > 0))
pack=${GPU_BUILD:+$(realpath "$GPU_BUILD")}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. cmake/setup.sh

has_cuda_device || { echo "SKIPPED: no CUDA device: nvidia-smi names none"; exit 77; }

# found WHAT PLACE CONSEQUENCE
found() { printf '%-18s %s\n' "$1" "${2:-not found: $3}"; }

# tool NAME: on the PATH, or where the CUDA toolkit puts it.
tool() { PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer command -v "$1" || true; }

# An importable PyTorch from 2.11 on, and what of its libraries is not here.
use_libtorch() {
  local torch version lacks
  torch=$(importable_torch)
  version=$(libtorch_version_in "$torch")
  if [ -n "$version" ] && sort -VC <<<"${libtorch_version%.*}"$'\n'"$version"; then
    export GRAPEVINE_LIBTORCH=$torch
  else
    torch=
  fi
  found LibTorch "${torch:+PyTorch $version in $torch}" "no PyTorch from ${libtorch_version%.*} on can be imported"
  [ -n "$torch" ] || return 0
  lacks=$(ldd "$torch/torch/lib/libtorch_cuda.so" 2>/dev/null | awk '/not found/ {print $1}' | xargs) || true
  [ -z "$lacks" ] || found "  its libraries" "" "$lacks; networks do not load"
}

# Programs of the steps that this build knows.
known_programs() {
  local name
  for name in $(python3 tests/bench/gpu_steps.py --programs); do
    if ninja -C build/release -t query "$name" >/dev/null 2>&1; then echo "$name"; fi
  done
}

build_all() (
  configure release
  # shellcheck disable=SC2046
  build release $(known_programs)
)

build_facts_alone() {
  local sources
  mapfile -t sources < <(find tests/bench/gpu_facts -name '*.c*' ! -name nccl.cpp)
  mkdir -p build/release/bin
  "$nvcc" -std=c++20 -O2 -arch=native --threads 0 -I. -o build/release/bin/gpu_facts "${sources[@]}"
}

# With programs that gpu_pack.sh has built elsewhere. Their libraries are for them alone: python3 has its own.
run_packed() {
  local site
  use_libtorch
  site=$(importable_torch)
  exec 9</dev/nvidia0 || true  # the driver stays up between the steps, each of which would begin with seconds of it
  (cat "$site"/torch/lib/libtorch_c*.so "$site"/nvidia/*/lib/*.so* >/dev/null 2>&1 &)  # from the disk once
  GPU_LIBRARIES=$pack/lib:$site/torch/lib$(printf ':%s' "$site"/nvidia/*/lib)
  export GPU_LIBRARIES
  local program
  for program in "$pack"/grapevine "$pack"/bin/*; do  # what a program lacks is said before it is run
    LD_LIBRARY_PATH=$GPU_LIBRARIES ldd "$program" 2>/dev/null | sed -n "/not found/s|^|$program:|p" || true
  done
  GPU_COMMIT=$(cat "$pack/commit") COMPUTE_SANITIZER=$(tool compute-sanitizer) \
    exec python3 tests/bench/gpu_steps.py "$pack" "$folder" "$@"
}

[ -z "$pack" ] || run_packed "$@"
nvcc=$(tool nvcc)
sanitizer=$(tool compute-sanitizer)
packages=$(missing_packages run)
use_libtorch
found nvcc "$nvcc" "nothing that runs on a GPU can be built"
found compute-sanitizer "$sanitizer" "memcheck, racecheck, initcheck and synccheck are left out"
found packages "$([ -n "$packages" ] || echo all)" "$packages"
if ! build_all; then
  [ -n "$nvcc" ] || stop "nothing can be built here"
  echo "the program cannot be built here: only gpu_facts is, and asked"
  (quietly "gpu_facts alone" build_facts_alone)
  set -- facts  # what an earlier build has left is not today's
fi
COMPUTE_SANITIZER=$sanitizer exec python3 tests/bench/gpu_steps.py build/release "$folder" "$@"
