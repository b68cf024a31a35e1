#!/usr/bin/env python3
"""Is a row of the benchmarks worse than it was? Two builds in turns, row by row.

    tests/bench/before.py BEFORE [--rounds 5] [BENCH...]

BEFORE is the root of a clone that was built at an earlier commit (build/release); BENCH is
simulator, training, links or kernels, all of them by default. A round runs both builds, so that
both meet the same state of the machine. A row is worse where its median has left the range of
the rounds before, to the wrong side. Status 1 where one is.
"""
import argparse
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parents[2]
NUMBER = r"(\d+(?:\.\d+)?)"


def of_simulator(text):
    for ranks, firings, size in re.findall(rf"^ *(\d+) +{NUMBER} M +(\d+)$", text, re.M):
        yield f"{ranks} ranks, firings a second (million)", float(firings), +1
        yield f"{ranks} ranks, bytes a rank", float(size), -1


def of_training(text):
    network = ""
    for line in text.splitlines():
        if found := re.match(r"(\S+, batch \d+): medians", line):
            network = found[1]
        if found := re.match(rf" *(Grapevine, \d ranks?) +{NUMBER} +{NUMBER} ", line):
            yield f"{network}: {found[1]}, steps a second", float(found[2]), +1
            yield f"{network}: {found[1]}, processor ms a step", float(found[3]), -1
        if found := re.match(rf" *(Grapevine.*?) +/ (.*?) +{NUMBER} .*by CPU time {NUMBER}", line):
            row = f"{network}: {found[1]} / {found[2].strip()}"
            yield f"{row}, steps", float(found[3]), +1
            yield f"{row}, by processor time", float(found[4]), +1


def of_links(text):
    for line in text.splitlines():
        if found := re.match(rf"(.*?) +{NUMBER} +{NUMBER} (us|ms|GB/s|k/s) +ratio +{NUMBER}", line):
            row, _, measured, unit, _ = found.groups()
            yield f"{row} ({unit})", float(measured), -1 if unit in ("us", "ms") else +1


def of_kernels(text):
    for line in text.splitlines():
        ends = rf"{NUMBER} .* {NUMBER} +{NUMBER}$"
        if found := re.match(rf" *({NUMBER} MB) +(\d) +(.*?) +{ends}", line):
            yield f"{found[3]} threads of {found[1]}: {found[4]}, fused / bare", float(found[6]), +1


BENCHES = {"simulator": ([], of_simulator), "training": (["1", "2"], of_training),
           "links": (["3"], of_links), "kernels": (["--ratios"], of_kernels)}


def rows_of(root, bench):
    """{row: (figure, +1 where more is better)}"""
    words, rows = BENCHES[bench]
    build = root / "build" / "release"
    said = subprocess.run([build / "bin" / f"{bench}_bench", *words], cwd=build, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return {row: (figure, better) for row, figure, better in rows(said)}


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("before", type=pathlib.Path)
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("benches", nargs="*", metavar="BENCH", default=list(BENCHES))
    asked = words.parse_intermixed_args()
    before = asked.before.resolve()
    worse = 0
    for bench in asked.benches:
        if bench not in BENCHES:
            sys.exit(f"BENCH is {bench}, accepted: {', '.join(BENCHES)}")
        rounds = [(rows_of(before, bench), rows_of(HERE, bench)) for _ in range(asked.rounds)]
        rows = [row for row in rounds[0][1] if all(row in both for pair in rounds for both in pair)]
        print(f"{bench}: {len(rows)} rows of {asked.rounds} rounds: before, now")
        for row in rows:
            better = rounds[0][1][row][1]
            was, now = ([pair[k][row][0] for pair in rounds] for k in (0, 1))
            middle = statistics.median(now)
            is_worse = middle < min(was) if better > 0 else middle > max(was)
            worse += is_worse
            print(f"  {'WORSE' if is_worse else 'ok':5} {row:75} {statistics.median(was):9.3f} "
                  f"({min(was):.3f} to {max(was):.3f}) {middle:9.3f} ({min(now):.3f} to "
                  f"{max(now):.3f})", flush=True)
        if not rows:
            print(f"  no row of {bench}_bench in both builds")
            worse += 1
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
