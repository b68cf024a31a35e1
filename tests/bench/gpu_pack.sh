#!/usr/bin/env bash
# What gpu.sh runs, built here for a machine that has a driver, PyTorch and no more, in one file.
#
#   tests/bench/gpu_pack.sh FILE.tar.xz
#
# On that machine: tar xf FILE.tar.xz -C PLACE, then GPU_BUILD=PLACE tests/bench/gpu.sh FOLDER. For H100 and H200.
set -euo pipefail
file=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=build/pack-release torch=$PWD/build/pack-torch
from=$(realpath "${GRAPEVINE_LIBTORCH:-.deps/libtorch}")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# A LibTorch whose CUDA half is an empty library, where it has none: nothing of it is called by name, and programs
# that are linked with it ask for the real one when they start.
mkdir -p "$torch/torch/lib"
ln -sfn "$from"/torch/lib/* "$torch/torch/lib/"
ln -sfn "$from/torch/include" "$from/torch/share" "$torch/torch/"
ln -sfn "$from/nvidia" "$torch/nvidia"
[ -e "$torch/torch/lib/libtorch_cuda.so" ] ||
  gcc -x c -shared -Wl,-soname,libtorch_cuda.so -o "$torch/torch/lib/libtorch_cuda.so" /dev/null

mapfile -t programs < <(python3 tests/bench/gpu_steps.py --programs)
cmake -S . -B $folder -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CUDA_ARCHITECTURES=90-real \
  "-DGRAPEVINE_LIBTORCH=$torch" >/dev/null
ninja -C $folder grapevine-network "${programs[@]}"

mkdir -p "$place/bin" "$place/lib" "$(dirname "$file")"
for name in bin/libgrapevine-network.so "${programs[@]/#/bin/}"; do
  [ "$name" != bin/grapevine ] || name=grapevine
  strip -s -o "$place/$name" "$folder/$name"
done
# All but what each Linux has, and NCCL, which comes with PyTorch.
ldd "$place"/grapevine "$place"/bin/* | awk '$3 ~ /^\/(usr\/)?lib/ {print $3}' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux[^/]*|libnccl)\.so' |
  xargs -I{} cp -L {} "$place/lib/"
git rev-parse --short HEAD >"$place/commit"
tar -C "$place" -c . | xz -T0 -6 >"$file"
ls -l "$file"
