#!/usr/bin/env python3
"""Which tests fail now and then: every case again and again, beside busy threads.

    tests/bench/repeat.py [--runs 50] [--long 10] [--busy 2] [--at-once 1] [--log FILE]
                          PROGRAM... [-- CASE...]

PROGRAM is node, transport, app or another of build/release/bin/*_test; CASE is a name or a pattern
of Catch2's. What else `./test --list` names (guests, churn) is one case, run as a whole. A case
whose run takes more than 20 s is run as often as --long says, any other as often as --runs. Rounds
go over all cases, so that a case meets many states of the machine; with --at-once, several cases of
a round run side by side.
Prints each failure with what the program said, then how many runs of which case failed. Status 1
where any did.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import time

BUILD = pathlib.Path(__file__).resolve().parents[2] / "build" / "release"
LONG_S, PATIENCE_S = 20, 600
BUSY = [sys.executable, "-c", "while True: pass"]


def commands():
    """By name, of every test that the build knows."""
    told = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"],
                          stdout=subprocess.PIPE, check=True).stdout
    return {test["name"]: test.get("command", []) for test in json.loads(told)["tests"]}


def is_program(name):
    return (BUILD / "bin" / f"{name}_test").exists()


def cases_of(program, patterns, known):
    if not is_program(program):
        if program in known:
            return [program]
        sys.exit(f"program is {program}, accepted: {' '.join(sorted(known))}")
    listed = subprocess.run([BUILD / "bin" / f"{program}_test", *patterns,
                             "--list-test-names-only"], stdout=subprocess.PIPE, text=True)
    return [line.strip() for line in listed.stdout.splitlines() if line.strip()]


def pattern_of(name):
    pattern = "".join("\\" + c if c in "\\,[" else c for c in name)
    return "*" + pattern.lstrip("-") if pattern.startswith("-") else pattern  # no option


def run(program, case, known):
    """(whether it passed, what it said, seconds)"""
    command = known.get(program)
    if is_program(program):
        command = [BUILD / "bin" / f"{program}_test", pattern_of(case), "-w", "NoTests"]
    began = time.monotonic()
    try:
        done = subprocess.run(command, cwd=BUILD, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=PATIENCE_S)
        return done.returncode == 0, done.stdout, time.monotonic() - began
    except subprocess.TimeoutExpired as hung:
        return False, f"it hangs\n{hung.stdout or ''}", time.monotonic() - began


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--runs", type=int, default=50)
    words.add_argument("--long", type=int, default=10)
    words.add_argument("--busy", type=int, default=2, help="threads; 0: the machine is busy")
    words.add_argument("--at-once", type=int, default=1)
    words.add_argument("--log")
    words.add_argument("programs", nargs="+")
    given, patterns = sys.argv[1:], []
    if "--" in given:
        patterns, given = given[given.index("--") + 1:], given[:given.index("--")]
    asked = words.parse_args(given)
    log = open(asked.log, "a", buffering=1) if asked.log else sys.stdout
    known = commands()
    cases = [(p, c) for p in asked.programs for c in cases_of(p, patterns, known)]
    wanted = dict.fromkeys(cases, asked.runs)
    runs, failures = collections.Counter(), collections.Counter()
    busy = [subprocess.Popen(BUSY) for _ in range(asked.busy)]
    side_by_side = concurrent.futures.ThreadPoolExecutor(asked.at_once)
    try:
        for turn in range(max(asked.runs, asked.long)):
            due = [case for case in cases if runs[case] < wanted[case]]
            if not due:
                break
            results = side_by_side.map(lambda case: run(*case, known), due)
            for case, (passed, said, seconds) in zip(due, results):
                if seconds > LONG_S:
                    wanted[case] = asked.long
                runs[case] += 1
                if not passed:
                    failures[case] += 1
                    print(f"=== {case[0]}: {case[1]}: run {runs[case]}, {seconds:.0f} s\n{said}",
                          file=log)
            print(f"round {turn + 1}: {sum(runs.values())} runs of {len(cases)} cases, "
                  f"{sum(failures.values())} failures", file=log, flush=True)
    finally:
        side_by_side.shutdown(cancel_futures=True)
        for child in busy:
            child.kill()
        for case, count in sorted(failures.items()):
            print(f"{count} of {runs[case]} runs failed: {case[0]}: {case[1]}", file=log)
        print(f"{sum(runs.values())} runs of {len(cases)} cases, {sum(failures.values())} failed",
              file=log)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
