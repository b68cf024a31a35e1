#!/usr/bin/env python3
"""What the guard does to healthy ranks that come and go, and with a bad rank beside seven.

    tests/bench/guard.py BUILD [--times 20] [--seeds 50] [--inner-steps 1]
                         [joins|restarts|scripts|bad ...]

BUILD is a build folder. Real processes, each so many times: a node joins a run and leaves it; a
node is killed and started again; a script is killed while the other one waits in finish(), and
another takes its place after a wait. Of each it prints the seconds from the first step of the ranks
that came to the first exchange of all of them, at most: status is asked again and again, and both
ends of an interval count. The bar is 2 s. `bad` prints the loss of seven honest ranks beside a bad
one, on the virtual clock, over that of the same run without it.
"""
import argparse
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PATHS = [str(HERE), str(HERE.parent / "node")]
BAR_S = 2
WAIT_S = 2  # of the other script, while the first one is gone


def since_first_step(node):
    """Seconds until all its ranks have had an exchange, at most."""
    node.address()
    first, before = None, node.said("listening on ")  # no step is before that
    while True:
        asked = time.monotonic()
        status = node.status()
        steps, exchanges = status.get("gradients"), status.get("exchanges")
        if not steps or not exchanges:
            before = asked
            continue
        first = first or steps
        if all(exchanges):
            return time.monotonic() - before
        if steps == first:
            before = asked


def job(folder, inner_steps):
    """Of a small network on a table: exchanges are as frequent as steps, and ranks agree early."""
    table = pathlib.Path(folder) / "table.csv"
    rows = [f"{k % 7},{k % 5},{k % 3},{k % 2}" for k in range(400)]
    table.write_text("\n".join(["a,b,c,class", *rows]) + "\n")
    return ["--model=mlp", f"--dataset={table}", "--gradients=0", "--until=3600",
            f"--inner-steps={inner_steps}"]


def joins(tools, program, times, task):
    with tools.scratch() as folder, tools.Cluster(program, 2, 2, task(folder)) as cluster:
        cluster.together()
        cluster.total = 0
        for k in range(times):
            newcomer = cluster.add(f"j{k}")
            yield since_first_step(newcomer)
            newcomer.ctl("drain")
            newcomer.result()


def restarts(tools, program, times, task):
    with tools.scratch() as folder, tools.Cluster(program, 3, 2, task(folder)) as cluster:
        cluster.together()
        for _ in range(times):
            cluster.nodes.pop().kill()
            yield since_first_step(cluster.add("n2", first_rank=4))
            cluster.together()


def train(script, optimum):
    """A step to an optimum of its own, with noise."""
    values = script.values()
    script.fill([v + 0.05 * (optimum - v) + random.gauss(0, 0.05) for v in values[:-3]]
                + values[-3:])
    return script.step()


SCRIPT = """
import sys
sys.path[:0] = %r
sys.argv = ["", %r]
import guard, guests_test
class Node: socket = %r
script = guests_test.Script(Node)
script.join()
while guard.train(script, 1.2).exchanges < 4: pass
print("trains", flush=True)
while True: guard.train(script, 1.2)
"""


def scripts(guests, times):
    for _ in range(times):
        with guests.Node(2) as node:
            waits = node.script()
            waits.begin(guests.START)
            dies = subprocess.Popen(
                [sys.executable, "-c", SCRIPT % (PATHS, guests.PROGRAM, node.socket)],
                stdout=subprocess.PIPE, text=True)
            guests.until("the scripts exchange", lambda: train(waits, 0.8).exchanges > 3)
            assert dies.stdout.readline() == "trains\n"
            waits.send(guests.record(guests.FINISH))
            dies.kill()
            dies.wait()
            time.sleep(WAIT_S)
            back = guests.joins(node)
            start = time.monotonic()
            before = train(back, 1.2).exchanges
            while train(back, 1.2).exchanges == before:
                time.sleep(0.01)
            yield time.monotonic() - start


def bad(build, seeds):
    ran = subprocess.run(
        [str(build / "bin/actors_runs_test"), "what one bad rank of eight costs*"],
        env={**os.environ, "GRAPEVINE_SEEDS": str(seeds)})
    return ran.returncode == 0


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("build", type=pathlib.Path)
    words.add_argument("rows", nargs="*", default=["joins", "restarts", "scripts", "bad"])
    words.add_argument("--times", type=int, default=20)
    words.add_argument("--seeds", type=int, default=50)
    words.add_argument("--inner-steps", type=int, default=1)
    asked = words.parse_intermixed_args()
    build = asked.build.resolve()
    program = str(build / "grapevine")
    sys.argv[1:] = [program]  # guests_test takes it
    sys.path[:0] = PATHS
    import cluster_tools
    import guests_test

    def task(folder):
        return job(folder, asked.inner_steps)

    rows = {"joins": lambda: joins(cluster_tools, program, asked.times, task),
            "restarts": lambda: restarts(cluster_tools, program, asked.times, task),
            "scripts": lambda: scripts(guests_test, asked.times)}
    good = True
    for row in asked.rows:
        if row == "bad":
            good = bad(build, asked.seeds) and good
            continue
        took = list(rows[row]())
        good = good and max(took) <= BAR_S
        print(f"{row:9} {len(took)} times: median {statistics.median(took):.2f} s, "
              f"most {max(took):.2f} s (bar {BAR_S} s)", flush=True)
    return not good


if __name__ == "__main__":
    sys.exit(main())
