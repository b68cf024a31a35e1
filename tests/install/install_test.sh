#!/usr/bin/env bash
# Installs a build into an empty prefix, moves it, and builds a stranger's project against it: BUILD SOURCE
# [--shared]. With --shared the libraries are built once more, as shared ones, in a folder beside the build that
# is kept: from there the paths of the sources are the same, so ccache has the objects already.
set -euo pipefail
build=$1 source=$2
if [ "${3-}" = --shared ]; then
  export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$source
  build=$(dirname "$build")/shared
  cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
    -DGRAPEVINE_TESTS=OFF >/dev/null
  nice ninja -C "$build" | tail -n 1
else
  echo "static libraries; the shared ones are tried by $0 $build $source --shared"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$1"; exit 1; }
quiet() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }; }

cmake --install "$build" --prefix "$work/prefix" >/dev/null
mv "$work/prefix" "$work/moved"
prefix=$work/moved
include=$prefix/include
test -x "$prefix/bin/grapevine"
test -f "$prefix/share/doc/Grapevine/LICENSE"
"$prefix/bin/grapevine" topology ring --ranks 16 >/dev/null

# What is installed is the surface: one more is decided here, and follows from no include of ours unseen. And no
# header of it is found by a name that a user's own folder may have.
headers=$(find "$include" -name '*.hpp' | wc -l)
echo "$headers headers"
[ "$headers" -le 48 ] || fail "more headers are installed than the surface has: 48"
if grep -rnE '#include "(kernels|topologies|messages|models|actors)/' "$include"; then
  fail "a header includes another by a path that is not below include/"
fi
for header in "$include"/grapevine/*.hpp; do
  case $header in */torch.hpp) continue ;; esac  # LibTorch's headers are wanted there
  echo "#include <grapevine/$(basename "$header")>" >"$work/header.cpp"
  c++ -std=c++20 -I"$include" -MM -MG "$work/header.cpp" >/dev/null
  c++ -std=c++20 -I"$include" -M "$work/header.cpp" >"$work/seen"
  grep -qE '/(torch|ATen|c10)/' "$work/seen" && fail "$(basename "$header") shows LibTorch"
  case $header in
    */actors.hpp) ;;
    *) grep -q '/caf/' "$work/seen" && fail "$(basename "$header") shows CAF" ;;
  esac
  shown=$(grep -oF "$include/" "$work/seen" | wc -l)
  case $header in */grapevine.hpp) most=22 ;; */checkpoint.hpp) most=23 ;; */actors.hpp) most=32 ;; *) most=36 ;; esac
  [ "$shown" -le "$most" ] || fail "$(basename "$header") shows $shown headers, of which there shall be $most at most"
done

if [ -e "$build/bin/libgrapevine-network.so" ]; then
  module=$prefix/lib/grapevine/libgrapevine-network.so
  test -f "$module"
  if ldd "$module" | grep 'not found'; then fail "the installed network module does not find its libraries"; fi
fi
# A package that names the tree it was built from, or where it was before it was moved, works there and nowhere else.
if grep -rnF -e "$source" -e "$build" -e "$work/prefix" "$prefix"/lib*/cmake "$prefix"/lib*/pkgconfig; then
  fail "the package names its build or source folder"
fi

# The README's program, as it stands there.
awk '/^```cpp$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$source/README.md" >"$work/readme.cpp"
libtorch=
if [ -e "$build/bin/libgrapevine-network.so" ]; then
  libtorch=$(sed -n 's/^GRAPEVINE_LIBTORCH:STRING=//p' "$build/CMakeCache.txt")
  libtorch=${libtorch:-$source/.deps/libtorch}
fi
quiet cmake -S "$source/tests/install" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$prefix" -DREADME="$work/readme.cpp" -DTORCH="${libtorch:+torch}"
quiet cmake --build "$work/build"

# A user's project that asks for something else gets a line with the reason: WANTED ARGUMENT OF find_package...
refused() {
  local wanted=$1
  shift
  rm -rf "$work/asks" && mkdir "$work/asks"
  printf 'cmake_minimum_required(VERSION 3.22)\nproject(Asks LANGUAGES CXX)\n%s\n' \
    'find_package(Grapevine REQUIRED COMPONENTS ${ASKED})' >"$work/asks/CMakeLists.txt"
  if cmake -S "$work/asks" -B "$work/asks/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" "$@" \
    >"$work/log" 2>&1; then
    fail "find_package accepts $*"
  fi
  tr -s ' \n' ' ' <"$work/log" | grep -qF "$wanted" || { cat "$work/log"; fail "no line says: $wanted"; }
}
mkdir -p "$work/other/caf" && touch "$work/other/caf/all.hpp"
echo '#define CAF_VERSION 1806' >"$work/other/caf/config.hpp"
refused "Grapevine needs CAF 0.17; $work/other/caf is of another version" -DGRAPEVINE_CAF_INCLUDE="$work/other"
refused "there is no component nonsense, accepted: torch" -DASKED=nonsense
echo '#include <grapevine/actors.hpp>' >"$work/header.cpp"
if c++ -std=c++20 -I"$work/other" -I"$include" -E "$work/header.cpp" >/dev/null 2>"$work/log"; then
  fail "actors.hpp accepts any CAF"
fi
grep -qF "needs CAF 0.17" "$work/log" || { cat "$work/log"; fail "actors.hpp does not name the CAF that it needs"; }
if [ -n "$libtorch" ]; then
  refused 'GRAPEVINE_LIBTORCH is "/nowhere", accepted: a folder with LibTorch in its torch/lib' \
    -DASKED=torch -DGRAPEVINE_LIBTORCH=/nowhere
fi
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name grapevine.pc)")
# shellcheck disable=SC2046
quiet c++ -o "$work/by_pkg_config" "$source/tests/install/consumer.cpp" \
  $(pkg-config --cflags --libs grapevine)
libraries=$(dirname "$PKG_CONFIG_PATH")
wanted="16 ranks took 16000 gradients: the loss of their mean is below 1e-3"
for program in "$work/build/consumer" "$work/by_pkg_config"; do
  said=$(LD_LIBRARY_PATH=$libraries "$program")
  echo "$(basename "$program") says: $said"
  [ "$said" = "$wanted" ] || fail "wanted: $wanted"
done
said=$("$work/build/worker")
[ "$said" = "workers of the stranger's making took 400 steps" ] || fail "the worker says: $said"
if [ -n "$libtorch" ]; then
  said=$("$work/build/network")
  [ "$said" = "a module of torch's is near the line" ] || fail "the network says: $said"
fi
