#!/usr/bin/env bash
# Where the set-up takes LibTorch from: SOURCE. A torch of some files stands for an installed PyTorch, and nothing is
# fetched: what would be downloaded is a file that says so.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# torch_of FOLDER VERSION [STRINGS]: STRINGS is a symbol that tells of which C++ its libraries are.
torch_of() {
  local torch=$1/torch
  mkdir -p "$torch/lib" "$torch/include/torch/csrc/api/include/torch"
  touch "$torch/__init__.py" "$torch/lib/libtorch_cpu.so" "$torch/include/torch/csrc/api/include/torch/torch.h"
  echo "${3-_ZNSt7__cxx1112basic_string}" >"$torch/lib/libc10.so"
  printf "from typing import Optional\n__version__ = '%s'\ncuda: Optional[str] = None\n" "$2" >"$torch/version.py"
}

# outcome FOLDER DEVICE: what .deps/libtorch is after the set-up with the torch of FOLDER importable.
outcome() {
  local folder=$1 device=$2
  rm -rf "$work/tree"
  mkdir "$work/tree"
  (
    cd "$work/tree"
    export PYTHONPATH=$folder PYTHONDONTWRITEBYTECODE=1
    unset GRAPEVINE_LIBTORCH
    . "$source/cmake/setup.sh"
    has_cuda_device() { [ "$device" = with-gpu ]; }
    download_libtorch() { mkdir -p "$1"; }
    unpack_libtorch() { mkdir -p "$2/torch/lib" && touch "$2/torch/lib/libtorch_cpu.so"; }
    quietly() { shift; "$@"; }
    get_libtorch 2>said
    get_libtorch 2>>said  # what is there stays, and is not mentioned again
    if [ -L .deps/libtorch ]; then
      [ "$(readlink .deps/libtorch)" = "$folder" ] && [ "$(wc -l <said)" = 1 ] && cut -d ' ' -f 1-6 said
    else
      [ ! -s said ] && echo fetched
    fi
  )
}

# expect SENTENCE FOLDER DEVICE WANTED
expect() {
  local found
  found=$(outcome "$2" "$3") || found="nothing ($found)"
  if [ "$found" = "$4" ]; then echo "$1"; else
    echo "NOT SO: $1; wanted: $4; found: $found"
    failed=1
  fi
}

torch_of "$work/same" 2.11.1+cu130
torch_of "$work/cuda" 2.11.0+cu130
touch "$work/cuda/torch/lib/libtorch_cuda.so"
torch_of "$work/other" 2.10.0
torch_of "$work/old-strings" 2.11.0 _ZNSs4_Rep
torch_of "$work/no-headers" 2.11.0
rm -r "$work/no-headers/torch/include"
mkdir "$work/none"
cd "$work"

expect "an installed PyTorch of the same version serves as LibTorch" \
  "$work/same" without "LibTorch: the one of PyTorch 2.11.1"
expect "beside a GPU it has to have CUDA" "$work/same" with-gpu fetched
expect "with CUDA it serves beside a GPU" "$work/cuda" with-gpu "LibTorch: the one of PyTorch 2.11.0"
expect "of another version it does not serve" "$work/other" without fetched
expect "with the old strings of C++ it does not serve" "$work/old-strings" without fetched
expect "without headers it does not serve" "$work/no-headers" without fetched
expect "without PyTorch LibTorch is fetched" "$work/none" without fetched
exit $failed
