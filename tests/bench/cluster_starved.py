"""Processes whose cores are full of gradients, or of scripts. See cluster.py."""
import hashlib
import os
import pathlib
import statistics
import subprocess
import sys
import time

from cluster_tools import Cluster, Node, scratch

ENDLESS = ["--topology=ring", "--gradients=0", "--until=900"]
ROUNDS = 5  # of both programs in turns, where there is an earlier one
CORES = len(os.sched_getaffinity(0))


class Scripts(Cluster):
    """Nodes whose ranks' steps are computed by scripts, each a process of its own."""

    def __init__(self, program, nodes, ranks, folder, more=()):
        self.folder, self.scripts = folder, []
        super().__init__(program, nodes, ranks, [*ENDLESS, *more])

    def add(self, name, machine=0, first_rank=None, more=()):
        path = f"{self.folder}/{name}"
        node = super().add(name, machine, first_rank, [f"--guests={self.ranks}", f"--door={path}",
                                                       *more])
        for _ in range(self.ranks):
            self.scripts.append(Node(sys.executable, [__file__, self.program, path]))
        return node

    def processes(self):
        return self.nodes + self.scripts

    def __exit__(self, *_):
        super().__exit__()
        for script in self.scripts:
            script.kill()


class Ranks(Cluster):
    """Nodes with four ranks of the zoo each."""

    def __init__(self, program, nodes, threads):
        super().__init__(program, nodes, 4, ["--objective=network", "--model=linear",
                                             "--batch=2048", *ENDLESS], threads=threads)

    def processes(self):
        return self.nodes


def starved(program, tell, before=None):
    """Twice as many compute threads as cores: links and actors are served before gradients."""
    processes, threads = 4, max(1, 2 * CORES // 4)
    compare(lambda which, folder: Ranks(which, processes, threads), program, before, tell,
            f"gradients a second, {processes} x {threads} threads on {CORES} cores")


def starved_scripts(program, tell, before=None):
    """The same with twice as many scripts as cores, two at each node."""
    compare(lambda which, folder: Scripts(which, CORES, 2, folder), program, before, tell,
            f"steps a second of {2 * CORES} scripts on {CORES} cores")
    scripts = [Node(sys.executable, [__file__, program, ""]) for _ in range(2 * CORES)]
    rates = [script.result() for script in scripts]
    tell("of the same scripts alone, a second of processor time", "",
         f"{statistics.mean(rates):.1f}", True)


def compare(cluster, program, before, tell, rate):
    rows = {which: [] for which in (program, before) if which}
    for _ in range(ROUNDS if before else 1):
        for which in rows:
            with scratch() as folder, cluster(which, folder) as c:
                rows[which].append(looked_at(c))
    trip, ratio, gradients, per_cpu = middle(rows[program])
    was = middle(rows[before]) if before else (0, 0, 0, 0)
    shown = "{}" + (", before {}" if before else "")
    tell("round trip between processes, median", "<= 5 ms",
         shown.format(f"{1e3 * trip:.1f} ms", f"{1e3 * was[0]:.1f} ms"), trip <= 5e-3)
    tell("exchanges per edge, between / inside processes", ">= 0.9",
         shown.format(f"{ratio:.2f}", f"{was[1]:.2f}"), ratio >= 0.9)
    tell(rate, "", shown.format(f"{gradients:.0f}", f"{was[2]:.0f}"), gradients > 0)
    tell("the same a second of processor time", "", shown.format(f"{per_cpu:.1f}", f"{was[3]:.1f}"),
         True)
    if before:
        kept = [new[3] / old[3] for new, old in zip(rows[program], rows[before])]
        tell("that in proportion to before, median (least, most)", ">= 0.97",
             f"{statistics.median(kept):.2f} ({min(kept):.2f}, {max(kept):.2f})",
             statistics.median(kept) >= 0.97)


def middle(rows):
    return [statistics.median(values) for values in zip(*rows)]


def looked_at(c, seconds=20):
    """Round trip, exchanges between / inside, gradients a second, and a second of processor."""
    c.together()
    time.sleep(5)
    before, cpu, began = [n.status() for n in c.nodes], cpu_of(c), time.monotonic()
    round_trips = []
    while time.monotonic() < began + seconds:
        for n in c.nodes:
            round_trips += [e["round_trip_seconds"] for e in n.status()["edges"]
                            if e["in_graph"] and between(e, c.ranks)]
        time.sleep(0.2)
    after, took, cpu = [n.status() for n in c.nodes], time.monotonic() - began, cpu_of(c) - cpu
    counts = {True: [], False: []}
    for old, new in zip(before, after):
        known = {tuple(e["ranks"]): e["exchanges"] for e in old["edges"]}
        for e in new["edges"]:
            if e["in_graph"]:
                counts[between(e, c.ranks)].append(e["exchanges"] -
                                                   known.get(tuple(e["ranks"]), 0))
    gradients = sum(sum(n["gradients"]) - sum(o["gradients"]) for o, n in zip(before, after))
    return (statistics.median(round_trips),
            statistics.mean(counts[True]) / statistics.mean(counts[False]), gradients / took,
            gradients / cpu)


def cpu_of(c):
    return sum(process.cpu_s() for process in c.processes())


def between(edge, ranks):
    """Whether its ends are at different processes of so many ranks."""
    return edge["ranks"][0] // ranks != edge["ranks"][1] // ranks


def step(memory=bytes(16 << 20)):
    """Some 10 ms of work. No torch, no NumPy."""
    hashlib.sha256(memory)


def alone(seconds=10):
    """Steps a second of processor time, without a node."""
    steps, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        step()
        steps += 1
    print(steps / time.process_time())


def script(program, path, numbers=10000):
    """A guest that makes steps for ever."""
    sys.argv[1:] = [program]
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "node"))
    import guests_test as guests  # the records of a guest, by hand
    guests.until("a socket", lambda: os.path.exists(path))
    here = guests.Script(type("", (), {"socket": path}))
    text = f"\ntrained w {numbers}\n"
    here.send(guests.record(guests.JOIN, count=len(text)) + text.encode())
    welcome = here.read()
    here.front = guests.mmap.mmap(welcome.fd, 4 * numbers)
    here.number = welcome.number
    if not welcome.flags & guests.RESUMED:
        here.ask(guests.STEP, number=welcome.number)
    while True:
        step()
        here.number = here.ask(guests.STEP, number=here.number + 1).number


if __name__ == "__main__":
    script(*sys.argv[1:]) if sys.argv[2] else alone()
