#!/usr/bin/env python3
"""Whether the tests notice changes that they once did not notice.

Each NAME.patch beside this script is one wrong line, as a real mistake would look. Its head says
which promise the line breaks, which test program states that promise and which of its cases do.
Every change is made alone, in a copy of the tree: the program must build, and those cases, which
pass without the change, must fail with it. Two programs are in Python: `python`, the tests of the
scripts' half, whose cases are `file.Class.test`, and `guests`, those of a node's socket for
scripts, `Class.test`.

    tests/mutants/run.py                  all of them, in build/mutants/tree, built without LibTorch
    tests/mutants/run.py NAME...          these
    tests/mutants/run.py --here NAME...   in this tree and its build/release: a copy of the project,
                                          configured with -DCMAKE_UNITY_BUILD=OFF to build sooner
    tests/mutants/run.py --fit            builds nothing: whether every patch still fits

Prints a table and ends with status 1 when a change went unnoticed, or a patch does not fit any
more: then the line it changes has moved, and the patch follows it.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PATIENCE_S = 600  # of one program; one that hangs has noticed
SCRIPTS = {
    "python": ["tests/python/run.py", "--program", "build/release/grapevine"],
    "guests": ["tests/node/guests_test.py", "build/release/grapevine"],
}


class Mutant:
    def __init__(self, path):
        self.path = path
        self.name = path.stem
        head = path.read_text().split("\n--- ")[0]
        said = dict(re.findall(r"^(Promise|Program|Cases): (.+)$", head, re.M))
        self.promise = said["Promise"]
        self.program = said["Program"]
        self.cases = said.get("Cases", "")


def call(command, folder, patience_s=None):
    try:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, text=True, errors="replace",
                              timeout=patience_s)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired:
        return 124, ""


def must(command, folder):
    status, said = call(command, folder)
    if status != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with status {status}:\n{said[-4000:]}")


def copy_of_tree():
    """The files that git knows or would add, configured once; only what changed is written anew."""
    tree = ROOT / "build" / "mutants" / "tree"
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                            stdout=subprocess.PIPE, text=True).stdout.splitlines()
    wanted = {name for name in listed if (ROOT / name).is_file()}
    for name in wanted:
        source, copy = ROOT / name, tree / name
        if copy.is_file() and copy.read_bytes() == source.read_bytes():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, copy)
        copy.touch()
    for copy in tree.rglob("*"):
        name = copy.relative_to(tree)
        if copy.is_file() and name.parts[0] != "build" and str(name) not in wanted:
            copy.unlink()
    if not (tree / "build/release/build.ninja").exists():
        must(["cmake", "--preset", "release", "-DCMAKE_UNITY_BUILD=OFF",
              "-DGRAPEVINE_LIBTORCH=none"], tree)
    return tree


def target(program):
    return "grapevine" if program in SCRIPTS else f"{program}_test"


def build(tree, program):
    return call(["ninja", "-C", "build/release", target(program)], tree)


def run_script(tree, mutant):
    """With torch, where it has been fetched. What is skipped has shown nothing."""
    torch = ROOT / ".deps" / "torch" / "bin" / "python"
    command = [torch if torch.exists() else sys.executable, *SCRIPTS[mutant.program],
               *mutant.cases.split()]
    status, said = call(command, tree, PATIENCE_S)
    return (1 if status == 0 and ("SKIPPED" in said or "| 0 passed" in said) else status), said


def run(tree, mutant):
    if mutant.program in SCRIPTS:
        return run_script(tree, mutant)
    command = [tree / "build/release/bin" / f"{mutant.program}_test", "-w", "NoTests"]
    if mutant.cases:
        command.append(mutant.cases)
    return call(command, tree / "build/release", PATIENCE_S)


def patch(tree, mutant, *options):
    # Outside of git's own tree the patch would be taken for one of the tree around it.
    return call(["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch",
                 "--reject-file=-", "-s", *options,
                 "-i", mutant.path], tree)


def why_not_fit(tree, mutant):
    status, said = patch(tree, mutant, "--dry-run")
    return "" if status == 0 else (said.strip().splitlines() or ["patch says nothing"])[-1]


def fit(mutants):
    why = {m.name: why_not_fit(ROOT, m) for m in mutants}
    unfit = [name for name, reason in why.items() if reason]
    for name in unfit:
        print(f"{name}: {why[name]}")
    print(f"{len(mutants) - len(unfit)} patches fit, {len(unfit)} do not")
    return 1 if unfit else 0


def verdict(tree, mutant):
    reason = why_not_fit(tree, mutant)
    if reason:
        return "does not fit", reason
    patch(tree, mutant)
    try:
        status, said = build(tree, mutant.program)
        if status != 0:
            return "does not build", next((l for l in said.splitlines() if "error" in l), "")
        status, said = run(tree, mutant)
    finally:
        patch(tree, mutant, "--reverse")
    if status == 0:
        return "NOT NOTICED", mutant.promise
    failed = re.findall(r"^(?:FAIL|ERROR): (\S+)", said, re.M) if mutant.program in SCRIPTS else []
    failed = failed or re.findall(r"^-{40,}\n(.+?)\n-{40,}$", said, re.M | re.S)
    if failed:
        return "noticed", " ".join(failed[0].split())
    return "noticed", "it hangs" if status == 124 else f"it ends with status {status}"


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--here", action="store_true")
    words.add_argument("--fit", action="store_true")
    words.add_argument("names", nargs="*")
    asked = words.parse_args()
    mutants = [Mutant(path) for path in sorted(HERE.glob("*.patch"))]
    known = {m.name for m in mutants}
    for name in asked.names:
        if name not in known:
            sys.exit(f"no change is named {name}, accepted: {' '.join(sorted(known))}")
    mutants = [m for m in mutants if not asked.names or m.name in asked.names]
    if asked.fit:
        return fit(mutants)
    tree = ROOT if asked.here else copy_of_tree()

    for program in sorted({m.program for m in mutants}):
        must(["ninja", "-C", "build/release", target(program)], tree)
    sound = {}
    for m in mutants:
        if (m.program, m.cases) not in sound:
            sound[m.program, m.cases] = run(tree, m)[0] == 0
    unnoticed = 0
    for m in mutants:
        began = time.monotonic()
        if sound[m.program, m.cases]:
            what, why = verdict(tree, m)
        else:
            what = "FAILS ANYWAY"
            why = f"{m.cases or 'the program'} fails without the change, or is not there"
        unnoticed += what != "noticed"
        print(f"{m.name:<44}{m.program:<16}{what:<16}{time.monotonic() - began:5.0f} s  {why}",
              flush=True)
    for program in sorted({m.program for m in mutants}):  # none is left as the last change made it
        must(["ninja", "-C", "build/release", target(program)], tree)
    print(f"{len(mutants) - unnoticed} noticed, {unnoticed} not")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
