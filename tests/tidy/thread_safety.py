#!/usr/bin/env python3
"""Whether every member that a mutex guards is used with that mutex held (kernels/base/mutex.hpp).

    tests/tidy/thread_safety.py CLANG++ [FLAG...]      the flags of grapevine_app: -I and -D

clang reads the annotations, which g++ does not. It parses the sources that lock a mutex or include
a header with a guarded member of their folder, a folder at a time, and compiles nothing. Ends with
status 1 and clang's warnings if a guarded member is used without its mutex.
"""

import collections
import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LAYERS = ("actors", "app", "kernels", "messages", "models", "topologies")
SIGNS = ("Mutex", "Lock lock(", "GV_GUARDED_BY")
# Its mutex is a function's own. Parsing LibTorch takes a minute.
LEFT_OUT = ("models/network/network_objective.cpp",)


def folders():
    """By folder: the sources and headers in which a mutex is used."""
    found = collections.defaultdict(list)
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*.[ch]pp")):
            name = path.relative_to(ROOT).as_posix()
            if name not in LEFT_OUT and any(sign in path.read_text() for sign in SIGNS):
                found[path.parent].append(name)
    return found


def complaints(clang, flags, names):
    """What clang says of the files, taken as one."""
    ordered = sorted(names, key=lambda n: n.endswith(".hpp"))
    text = "".join(f'#include "{name}"\n' for name in ordered)
    ran = subprocess.run(
        [clang, "-std=c++20", "-fsyntax-only", "-Wno-everything", "-Wthread-safety",
         "-Werror=thread-safety", "-isystem", str(ROOT / "tests/tidy/clang"), f"-I{ROOT}", *flags,
         "-x", "c++", "-"],
        input=text, capture_output=True, text=True)
    return "" if ran.returncode == 0 else ran.stderr


def main():
    clang, *flags = sys.argv[1:]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(lambda names: complaints(clang, flags, names), folders().values()))
    print("".join(said), end="")
    return any(said)


if __name__ == "__main__":
    sys.exit(main())
