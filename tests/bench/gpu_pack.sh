#!/usr/bin/env bash
# What gpu.sh runs, built here for a machine that has a driver, PyTorch and no more, in one file.
#
#   tests/bench/gpu_pack.sh FILE.tar.xz
#
# On that machine: tar xf FILE.tar.xz -C PLACE, then GPU_BUILD=PLACE tests/bench/gpu.sh FOLDER.
set -euo pipefail
file=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. cmake/setup.sh
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

mapfile -t programs < <(python3 tests/bench/gpu_steps.py --programs)
(GRAPEVINE_CUDA=ON configure release)  # for a GPU of another machine
(build release grapevine-network "${programs[@]}")
mkdir -p "$place/bin" "$place/lib" "$(dirname "$file")"
for name in libgrapevine-network.so "${programs[@]}"; do
  to=bin/$name
  [ "$name" != grapevine ] || to=grapevine
  strip -s -o "$place/$to" "build/release/$to"
done
# All but LibTorch's, and what each Linux has.
find "$place" -type f -exec ldd {} + | awk '$3 ~ /^\/(usr\/)?lib/ {print $3}' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux[^/]*|libnccl)\.so' |
  xargs -I{} cp -L {} "$place/lib/"
git rev-parse --short HEAD >"$place/commit"
tar -C "$place" -c . | xz -T0 -6 >"$file"
ls -l "$file"
