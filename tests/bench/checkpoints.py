#!/usr/bin/env python3
"""What saving and TensorBoard's event files cost a run, interleaved with the same run without.

    tests/bench/checkpoints.py PROGRAM [--pairs 8] [--every 10s] [-- OPTIONS of train]

Prints of each pair the gradients per second, and per processor second, which another program's load
leaves as it is; then the medians of their ratios, and how much was written.
"""
import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

USUAL = "--objective quadratic --dim 100000 --ranks 8 --gradients 0 --until 25".split()


def processor_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(program, every, options):
    """(gradients per second, per processor second, checkpoints, bytes of one)"""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        before = processor_s()
        curves = [] if every == "0" else ["--tensorboard"]
        ran = subprocess.run([program, "train", *options, "--checkpoint-every", every, "--out", out,
                              "--json", *curves], capture_output=True, text=True, check=True)
        used = processor_s() - before
        if "ALARM" in ran.stderr:
            sys.exit(ran.stderr)
        told = json.loads(ran.stdout)
        manifests = [json.loads(path.read_text())
                     for path in out.glob("checkpoints/*/manifest.json")]
        last = max(manifests, key=lambda m: m["serial"], default={"serial": 0, "ranks": []})
        return (told["gradients_per_second"], told["gradients"] / used, last["serial"],
                sum(rank["bytes"] for rank in last["ranks"]))


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("program")
    words.add_argument("--pairs", type=int, default=8)
    words.add_argument("--every", default="10s")
    given = sys.argv[1:]
    options = given[given.index("--") + 1:] if "--" in given else USUAL
    asked = words.parse_args(given[:given.index("--")] if "--" in given else given)
    ratios, processor_ratios = [], []
    for pair in range(asked.pairs):
        order = ["0", asked.every] if pair % 2 == 0 else [asked.every, "0"]
        told = {every: run(asked.program, every, options) for every in order}
        (bare, bare_used, *_), (saving, saving_used, saved, size) = told["0"], told[asked.every]
        ratios.append(saving / bare)
        processor_ratios.append(saving_used / bare_used)
        print(f"without {bare:9.1f}/s {bare_used:9.1f}/cpu s   with {saving:9.1f}/s "
              f"{saving_used:9.1f}/cpu s   {saved} of {size / 1e6:.1f} MB", flush=True)
    print(f"with / without, {asked.pairs} pairs: medians {statistics.median(ratios):.3f} a second, "
          f"{statistics.median(processor_ratios):.3f} a processor second")


if __name__ == "__main__":
    main()
