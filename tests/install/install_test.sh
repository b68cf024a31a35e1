#!/usr/bin/env bash
# Installs a build into an empty prefix and builds a stranger's project against it: BUILD SOURCE.
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >/dev/null
test -x "$work/prefix/bin/grapevine"
test -f "$work/prefix/include/grapevine/topologies/topology.hpp"
if [ -e "$build/bin/libgrapevine-network.so" ]; then
  module=$work/prefix/lib/grapevine/libgrapevine-network.so
  test -f "$module"
  if ldd "$module" | grep 'not found'; then
    echo "the installed network module does not find its libraries"
    exit 1
  fi
fi
# A package that names the tree it was built from works here and nowhere else.
if grep -rn -F -e "$source" -e "$build" --include='*.cmake' "$work/prefix"; then
  echo "the package names its build or source folder"
  exit 1
fi
cmake -S "$source/tests/install" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
said=$("$work/build/consumer")
echo "the consumer says: $said"
wanted="chi1 13.14 mixed 1.0 from 7"
if [ "$said" != "$wanted" ]; then
  echo "wanted:            $wanted"
  exit 1
fi
