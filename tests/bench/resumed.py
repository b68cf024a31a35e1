#!/usr/bin/env python3
"""How a job ends that was killed on its way, beside the same job left alone.

    tests/bench/resumed.py PROGRAM [--seeds 3] [--nodes 4] [--others 3,5] [-- OPTIONS of launch]

Of each seed: a launch that is left alone; one whose every process dies by SIGKILL at a quarter, a
half and three quarters of the gradients, each time started again by the same command; and, from
half of its gradients on, one on other numbers of nodes. Prints the accuracy of each mean (or the
excess loss of an objective without one) and the spread of those left alone.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

USUAL = "--ranks 4 --gradients 40000".split()


def children_of(process):
    listed = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(word) for word in listed.split()]


def in_checkpoints(out):
    """Gradients of all ranks in the newest checkpoint of each node."""
    total = 0
    for node in out.glob("node-*"):
        told = []
        for path in node.glob("checkpoints/*/manifest.json"):
            try:
                told.append(json.loads(path.read_text()))
            except (OSError, ValueError):  # removed meanwhile
                continue
        total += max(told, key=lambda m: m["serial"], default={"gradients": 0})["gradients"]
    return total


class Job:
    def __init__(self, program, nodes, seed, options, out):
        self.command = [program, "launch", *options, "--nodes", str(nodes), "--seed", str(seed),
                        "--checkpoint-every", "2s", "--json"]
        self.gradients = int(options[options.index("--gradients") + 1])
        self.out = out

    def whole(self, *more):
        ran = subprocess.run([*self.command, "--out", self.out, *more], capture_output=True,
                             text=True, check=False)
        if ran.returncode != 0:
            sys.exit(f"{' '.join(self.command)}: {ran.stderr}")
        told = json.loads(ran.stdout)
        return told["accuracy"] if told["accuracy"] is not None else told["suboptimality"]

    def killed_at(self, part):
        """Until so many gradients are saved; then nobody is asked."""
        with subprocess.Popen([*self.command, "--out", self.out], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as launch:
            while in_checkpoints(self.out) < part * self.gradients:
                if launch.poll() is not None:
                    sys.exit(f"it ended before it was killed: {launch.stderr.read()}")
                time.sleep(0.05)
            for process in [*children_of(launch.pid), launch.pid]:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:  # it died with its parent
                    pass


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("program")
    words.add_argument("--seeds", type=int, default=3)
    words.add_argument("--nodes", type=int, default=4)
    words.add_argument("--others", default="3,5", help="other numbers of nodes; empty: none")
    given = sys.argv[1:]
    options = given[given.index("--") + 1:] if "--" in given else USUAL
    asked = words.parse_args(given[:given.index("--")] if "--" in given else given)
    ends = {}
    for seed in range(1, asked.seeds + 1):
        with tempfile.TemporaryDirectory() as folder:
            def job(nodes, name, seed=seed, folder=folder):
                out = pathlib.Path(folder) / name
                return Job(asked.program, nodes, seed, options, out)

            ends.setdefault("left alone", []).append(job(asked.nodes, "whole").whole())
            killed = job(asked.nodes, "killed")
            for part in (0.25, 0.5, 0.75):
                killed.killed_at(part)
            ends.setdefault("killed three times", []).append(killed.whole())
            half = job(asked.nodes, "half")
            half.killed_at(0.5)
            for nodes in filter(None, asked.others.split(",")):
                made = job(nodes, f"on-{nodes}").whole("--resume", half.out)
                ends.setdefault(f"the second half on {nodes} nodes", []).append(made)
            print(f"seed {seed}: " + ", ".join(f"{k} {v[-1]:.4f}" for k, v in ends.items()),
                  flush=True)
    for name, all_of_it in ends.items():
        print(f"{name}: mean {statistics.mean(all_of_it):.4f}, {min(all_of_it):.4f} to "
              f"{max(all_of_it):.4f}")


if __name__ == "__main__":
    main()
