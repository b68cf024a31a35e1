#!/usr/bin/env python3
"""How far the learning rates of the ranks of one job differ at one time.

    tests/bench/learning_rates.py PROGRAM [--gradients 5000]

Four nodes of one rank share a pool of gradients and a cosine schedule with a warm-up. A step takes
some 30 ms, and three times as long on the last node. All four are asked for the rate of their
newest gradient again and again, at the same time. It prints the largest difference of two of them
over the peak of the schedule, during the warm-up and after it. A step keeps the rate that it began
with: in the warm-up a rate rises by 2.5 % of the peak during a slow step, and a step for which a
core is late keeps an old one. Status 1 where more than one of 100 differences after the warm-up is
above 1 %, or the job took less than a minute.
"""
import argparse
import concurrent.futures
import pathlib
import sys
import time

from cluster_tools import Cluster, scratch

PEAK, MOST = 0.1, 0.01
JOB = ["--objective=quadratic", "--dim=1000000", "--rate=0.2", "--share=pool", f"--lr={PEAK}",
       "--schedule=cosine", "--warmup=0.1"]
PLAN = '[[fault]]\nkind = "slow"\nranks = [3]\nfactor = 3\n'


def rates(nodes, pool):
    """Of each node, where all have one."""
    told = [status.get("learning_rate") for status in pool.map(lambda n: n.status(), nodes)]
    return told if all(rate is not None for rate in told) else []


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("program")
    words.add_argument("--gradients", type=int, default=5000)
    asked = words.parse_args()
    program = str(pathlib.Path(asked.program).resolve())
    asked_for = []  # the rates of all nodes, by time
    with scratch() as folder, concurrent.futures.ThreadPoolExecutor(4) as pool:
        plan = pathlib.Path(folder) / "slow.toml"
        plan.write_text(PLAN)
        job = [*JOB, f"--gradients={asked.gradients}", f"--plan={plan}"]
        with Cluster(program, 4, 1, job) as cluster:
            start = time.monotonic()
            while all(n.process.poll() is None for n in cluster.nodes):
                asked_for += [told] if (told := rates(cluster.nodes, pool)) else []
            took = time.monotonic() - start
            taken = sum(n.result()["gradients"] for n in cluster.nodes)
    peak = max(range(len(asked_for)), key=lambda k: max(asked_for[k]))
    print(f"{took:.0f} s, {taken} gradients")
    for name, part in (("warm-up", asked_for[:peak]), ("after it", asked_for[peak:])):
        spreads = sorted(100 * (max(told) - min(told)) / PEAK for told in part)
        usual, most = spreads[len(spreads) // 2], spreads[len(spreads) * 99 // 100]
        print(f"{name:9} asked {len(part)} times: median {usual:.2f} %, 99 of 100 at most "
              f"{most:.2f} %, most {spreads[-1]:.2f} % of the peak")
    return most > 100 * MOST or took < 60


if __name__ == "__main__":
    sys.exit(main())
