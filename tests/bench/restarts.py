#!/usr/bin/env python3
"""What a node that is killed again and again costs the three that go on.

    tests/bench/restarts.py PROGRAM [--lives 20] [--seconds 3] [--dim 100000]

Four nodes train. One is ended by SIGKILL and started again by the same command, so many times. Of
each life it prints whether the node joined no further back than the file of its earlier life and
the neighbours were, and the gradients per processor second of the three others beside those of the
same three just before, while nobody dies: a machine that others use too does less in a processor
second at one time than at another. Status 1 where a life joins further back, or the median is below
0.95.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

from cluster_tools import Cluster, scratch, wait

QUADRATIC = ["--objective=quadratic", "--gradients=0", "--until=3600",
             "--checkpoint-every=1s"]


def per_processor_second(nodes, seconds):
    """Gradients of all of them together, over the processor time that they took."""
    before = [(n.gradients(), n.cpu_s()) for n in nodes]
    time.sleep(seconds)
    after = [(n.gradients(), n.cpu_s()) for n in nodes]
    steps = sum(now[0] - then[0] for now, then in zip(after, before))
    return steps / sum(now[1] - then[1] for now, then in zip(after, before))


def in_file(run):
    """The least gradients of a rank in the newest checkpoint."""
    manifests = [json.loads(path.read_text()) for path in run.glob("checkpoints/*/manifest.json")]
    newest = max(manifests, key=lambda m: m["serial"], default=None)
    return min(rank["gradients"] for rank in newest["ranks"]) if newest else 0


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("program")
    words.add_argument("--lives", type=int, default=20)
    words.add_argument("--seconds", type=float, default=3)
    words.add_argument("--dim", type=int, default=100_000, help="numbers of the model")
    asked = words.parse_args()
    program = str(pathlib.Path(asked.program).resolve())
    ratios, back = [], 0
    with scratch() as folder, Cluster(
            program, 4, 2, [*QUADRATIC, f"--dim={asked.dim}"], out=folder) as cluster:
        cluster.together()
        dies, others = cluster.nodes[3], cluster.nodes[:3]
        for life in range(asked.lives):
            run = pathlib.Path(folder) / dies.name
            wait("a checkpoint", lambda: in_file(run) > 0)
            usual = per_processor_second(others, asked.seconds)
            dies.kill()
            file = in_file(run)
            neighbour = min(min(n.status()["gradients"]) for n in others)
            dies = cluster.add("n3", first_rank=6)
            rate = per_processor_second(others, asked.seconds)
            cluster.together(8)
            began = min(dies.status()["gradients"])
            is_back = began < max(file, neighbour)
            back += is_back
            ratios.append(rate / usual)
            print(f"life {life:2}  file {file:8}  neighbour {neighbour:8}  joined at {began:8}"
                  f"{'  FURTHER BACK' if is_back else ''}  the others {ratios[-1]:.3f}", flush=True)
    median = statistics.median(ratios)
    print(f"{asked.lives} lives: {back} joined further back; the others per processor second, "
          f"with / without: median {median:.3f}, least {min(ratios):.3f}")
    return back > 0 or median < 0.95


if __name__ == "__main__":
    sys.exit(main())
