#!/usr/bin/env python3
"""One job, four processes, and what goes wrong with machines: who has it done after how long.

    rivals.py [--rounds N] [--cases ...] [--contestants ...] [--steps N] [--csv FILE]

The job is a number of steps of one PyTorch script (rivals_job.py), of all processes together; a
step takes 40 ms, as if an accelerator computed it. Contestants:

    ddp        torchrun and DistributedDataParallel with Gloo
    elastic    the same on four machines of a torchrun each, which go on from the last checkpoint
               (each 100 steps); heartbeats of 1 s, and 5 s for late ones, in place of 5 s and 30 s
    torchft    torchft's manager with Gloo, with its own defaults; where it can be imported
    grapevine  `grapevine launch --guests 4 --gradients N`, method a2cid2, and the five lines

Cases:

    equal      all four alike
    slow3      a step of the last takes 3 times as long
    slow10     10 times
    killed     the last is killed (SIGKILL) at half of the steps, and never comes back
    back       it is killed at a tenth of the steps, and its machine is back 10 s later
    preempted  it is told to end (SIGTERM) at a tenth of the steps, and is back 20 s later
    joined     two more come at half

(and 50 steps later, so that it is halfway between two checkpoints)

Seconds count from the first step of any process until the last has the final model. The ideal of a
run is the shortest schedule of its steps on the processes that were ready, at 40 ms a step: each
begins a step as long as one is left, from the moment its script calls join, or until it is killed.
Steps lost are those that processes have taken and that are not in the final model.

Runs are appended to FILE (CSV), and the tables are of all runs in FILE: medians, ranges in
brackets. A run that is not done in PATIENCE times its equal case counts as never done. $GRAPEVINE
is the program, build/release/grapevine without it; $GRAPEVINE_DATA has Fashion-MNIST, else the
images are made up.
"""

import argparse
import csv
import glob
import heapq
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.environ.get("GRAPEVINE", os.path.join(ROOT, "build/release/grapevine"))
SCRIPT = os.path.join(HERE, "rivals_job.py")
RANKS, VICTIM, STEP_S, CHECKPOINT_STEPS = 4, 3, 0.04, 100
PATIENCE, START_S = 15, 60  # in times of the equal case, and for processes to start


class Case(NamedTuple):
    what: str
    factor: int = 1  # of the last's steps
    at: float = 0  # of the steps, when it happens
    signal: int = 0  # to the last
    back_s: float = 0  # after it
    more: int = 0  # that come


CASES = {
    "equal": Case("all four alike"),
    "slow3": Case("one 3x slower", factor=3),
    "slow10": Case("one 10x slower", factor=10),
    "killed": Case("one killed at half", at=0.5, signal=signal.SIGKILL),
    "back": Case("one killed, back after 10 s", at=0.1, signal=signal.SIGKILL, back_s=10),
    "preempted": Case("one preempted, back after 20 s", at=0.1, signal=signal.SIGTERM, back_s=20),
    "joined": Case("two more at half", at=0.5, more=2),
}


class Part:
    """What a place has done, as its processes wrote it (rivals_job.py)."""

    def __init__(self, folder, place):
        self.joins, self.steps, self.done, self.taken, self.loss = [], [], None, None, None
        self.exchanges = None
        self.pid, born = None, 0.0
        for path in glob.glob(os.path.join(folder, f"part-{place}-*")):
            with open(path, encoding="utf-8") as file:
                for line in file.read().split("\n")[:-1]:
                    self.__take(line.split())
            if os.stat(path).st_mtime > born:
                self.pid, born = int(path.split("-")[-1]), os.stat(path).st_mtime
        self.joins.sort()
        self.steps.sort()

    def __take(self, words):
        told, values = words[0], [float(word) for word in words[1:]]
        if told == "join":
            self.joins.append(values[0])
        elif told == "step":
            self.steps.append(values)
        elif told == "done":
            self.done, self.taken = values
        elif told == "exchanges":
            self.exchanges = values[0]
        else:
            self.loss = values[0]


class Contestant:
    """The processes of a job. Each is the head of a session of its own."""

    def __init__(self, folder, case, steps):
        self.folder, self.case, self.steps = folder, case, steps
        self.processes = {}

    def job(self):
        """More of what the script is told."""
        return {}

    def begin(self, name, command, **environment):
        with open(os.path.join(self.folder, "log-" + name), "ab") as log:
            self.processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                start_new_session=True,
                env={**os.environ, "JOB": self.folder, "OMP_NUM_THREADS": "1", **environment},
            )

    def hit(self, pid, number):
        """What the end of a machine does to it."""
        os.kill(pid, number)

    def back(self):
        """The machine of the last is there again."""

    def more(self, count):
        """Machines that come."""

    def ended(self):
        return all(process.poll() is not None for process in self.processes.values())

    def close(self):
        for process in self.processes.values():
            for group in {process.pid, *groups_of(self.folder)}:
                try:
                    os.killpg(group, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait()


def groups_of(folder):
    """Of processes that write there, whoever has started them: their own groups, not this one's."""
    groups = set()
    for path in glob.glob(os.path.join(folder, "part-*")):
        try:
            groups.add(os.getpgid(int(path.split("-")[-1])))
        except ProcessLookupError:
            pass
    return groups - {os.getpgid(0)}


class Ddp(Contestant):
    def start(self):
        self.begin("all", [*torchrun("--standalone", f"--nproc-per-node={RANKS}"), SCRIPT, "ddp"])


class Elastic(Contestant):
    def start(self):
        self.port = free_port()
        for place in range(RANKS):
            self.machine(place)

    def machine(self, place):
        words = [
            f"--nnodes=1:{RANKS + self.case.more}", "--nproc-per-node=1", "--max-restarts=100",
            "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self.port}", "--rdzv-id=job",
            f"--rdzv-conf=is_host={int(place == 0)},last_call_timeout=5,keep_alive_interval=1",
            "--local-addr=127.0.0.1",
        ]
        self.begin(str(place), [*torchrun(*words), SCRIPT, "elastic"], JOB_PLACE=str(place),
                   TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")  # else it meets keys of a group before

    def hit(self, pid, number):
        last = self.processes.pop(str(VICTIM))
        last.send_signal(number)  # torchrun passes SIGTERM on to its script
        if number == signal.SIGKILL:
            os.kill(pid, number)
        last.wait()

    def back(self):
        self.machine(VICTIM)

    def more(self, count):
        for place in range(RANKS, RANKS + count):
            self.machine(place)


class TorchFt(Contestant):
    def job(self):
        self.port = free_port()
        return {"lighthouse": f"http://127.0.0.1:{self.port}"}

    def start(self):
        main = ("import signal; from torchft.coordination import LighthouseServer as Server; "
                f"server = Server(bind='127.0.0.1:{self.port}', min_replicas=1); signal.pause()")
        self.begin("lighthouse", [sys.executable, "-c", main])
        for place in range(RANKS):
            self.machine(place)

    def machine(self, place):
        self.begin(str(place), [sys.executable, SCRIPT, "torchft"], JOB_PLACE=str(place))

    def back(self):
        self.machine(VICTIM)

    def more(self, count):
        for place in range(RANKS, RANKS + count):
            self.machine(place)

    def ended(self):
        return all(process.poll() is not None for name, process in self.processes.items()
                   if name != "lighthouse")


class Grapevine(Contestant):
    def start(self):
        os.chmod(self.folder, 0o700)
        self.script = [sys.executable, SCRIPT, "grapevine"]
        self.surroundings = {
            "XDG_RUNTIME_DIR": self.folder,
            "PYTHONPATH": os.path.join(ROOT, "app/python") + ":" + os.environ.get("PYTHONPATH", ""),
        }
        self.begin("launch", [
            PROGRAM, "launch", f"--guests={RANKS}", f"--gradients={self.steps}", "--no-save",
            "--node-name=job", f"--restarts={int(self.case.back_s > 0)}", "--", *self.script,
        ], **self.surroundings)

    def more(self, count):
        node = [PROGRAM, "node", "--join=job", "--node-name=more", f"--guests={count}", "--no-save"]
        self.begin("more", node, **self.surroundings)
        for place in range(RANKS, RANKS + count):
            path = os.path.join(self.folder, "grapevine", "more.door")
            self.begin(str(place), self.script, JOB_PLACE=str(place), GRAPEVINE_NODE=path,
                       **self.surroundings)


CONTESTANTS = {
    "ddp": ("DDP", Ddp),
    "elastic": ("DDP, restarted", Elastic),
    "torchft": ("torchft", TorchFt),
    "grapevine": ("Grapevine", Grapevine),
}


def torchrun(*words):
    return [sys.executable, "-m", "torch.distributed.run", *words]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ideal(steps, begin, spans):
    """Seconds of the shortest schedule; `spans`: (ready, until, seconds a step) of processes."""
    free = [(max(begin, ready), until, step_s) for ready, until, step_s in spans]
    heapq.heapify(free)
    over = begin
    while steps and free:
        at, until, step_s = heapq.heappop(free)
        if at + step_s <= until:
            steps -= 1
            over = max(over, at + step_s)
            heapq.heappush(free, (at + step_s, until, step_s))
    return over - begin


class Run:
    """One contestant in one case."""

    def __init__(self, contestant, case, steps):
        self.case, self.steps = case, steps
        self.places = range(RANKS + case.more)
        self.hit_at, self.back_at = float("inf"), float("inf")
        with tempfile.TemporaryDirectory(prefix="grapevine-rivals-") as self.folder:
            self.contestant = CONTESTANTS[contestant][1](self.folder, case, steps)
            try:
                self.launched = time.monotonic()
                self.__begin()
                at = case.at * steps + CHECKPOINT_STEPS / 2  # halfway between two checkpoints
                if case.at and self.__await(lambda: self.__taken() >= at):
                    self.__happen()
                self.__await(lambda: False)
            finally:
                self.contestant.close()
            self.parts = [Part(self.folder, place) for place in self.places]

    def __begin(self):
        job = {"steps": self.steps, "step_s": STEP_S, "victim": VICTIM, "factor": self.case.factor,
               "checkpoint_steps": CHECKPOINT_STEPS, **self.contestant.job()}
        with open(os.path.join(self.folder, "job.json"), "w", encoding="utf-8") as file:
            json.dump(job, file)
        self.contestant.start()
        self.end = time.monotonic() + START_S + PATIENCE * self.steps * STEP_S / RANKS

    def __await(self, holds):
        """Until it holds, or the job has ended: False."""
        while time.monotonic() < self.end and not self.contestant.ended():
            if holds():
                return True
            if time.monotonic() > self.back_at:
                self.back_at = float("inf")
                self.contestant.back()
            time.sleep(0.02)
        return False

    def __taken(self):
        parts = pathlib.Path(self.folder).glob("part-*")
        return sum(part.read_bytes().count(b"step") for part in parts)

    def __happen(self):
        if self.case.more:
            self.contestant.more(self.case.more)
        if not self.case.signal:
            return
        if self.case.back_s:
            self.back_at = time.monotonic() + self.case.back_s
            with open(os.path.join(self.folder, "back"), "w", encoding="utf-8") as file:
                file.write(str(self.back_at))
        self.contestant.hit(Part(self.folder, VICTIM).pid, self.case.signal)
        self.hit_at = time.monotonic()

    def row(self):
        """Its line of the table; no seconds where the job was not done."""
        steps = [step for part in self.parts for step in part.steps]
        taken = len(steps)
        done = [part for part in self.parts if part.done]
        if not done or not steps:
            return {"lost": taken, "taken": taken}
        begin = min(began for began, _, _ in steps)
        first = min(part.done for part in done)  # who comes only then finds the model ready
        over = max(part.done for part in done if part.joins[-1] < first)
        least = ideal(self.steps, begin, self.__spans())
        in_it = max(part.taken for part in done)
        losses = [part.loss for part in done if part.loss is not None]
        return {
            "seconds": over - begin, "total": over - self.launched, "ideal": least,
            "ratio": (over - begin) / least, "loss": statistics.median(losses),
            "lost": max(0, taken - int(in_it)), "taken": taken, **self.__where(begin, over),
        }

    def __spans(self):
        """When each process was ready, and the seconds that a step takes it."""
        for place, part in enumerate(self.parts):
            slow = self.case.factor if place == VICTIM else 1
            first = part.joins[:1]
            again = [at for at in part.joins if at > self.hit_at][:1] if place == VICTIM else []
            yield from ((at, self.hit_at if again or self.case.signal and place == VICTIM
                         else float("inf"), slow * STEP_S) for at in first)
            yield from ((at, float("inf"), slow * STEP_S) for at in again)

    def __where(self, begin, over):
        """Where the time of the ready processes went, in parts of it."""
        whole = sum(max(0.0, min(until, over) - max(ready, begin))
                    for ready, until, _ in self.__spans())
        work = contention = share = end = 0.0
        for place, part in enumerate(self.parts):
            step_s = STEP_S * (self.case.factor if place == VICTIM else 1)
            for began, computed, ended in part.steps:
                work += step_s
                contention += computed - began - step_s
                share += ended - computed
            if part.done and part.steps:
                end += over - part.steps[-1][2]
        parts = {"work": work, "contention": contention, "share": share, "end": end}
        return {name: seconds / whole for name, seconds in parts.items()}


FIELDS = ["case", "contestant", "steps", "seconds", "total", "ideal", "ratio", "loss", "lost",
          "taken", "work", "contention", "share", "end"]


def append(path, row):
    new = not os.path.exists(path)
    with open(path, "a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if new:
            writer.writeheader()
        writer.writerow({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()})


def spread(values, form):
    one = form % statistics.median(values)
    return f"{one} ({form % min(values)}-{form % max(values)})" if len(values) > 1 else one


def cell(runs, *columns):
    """Medians of a contestant in a case."""
    done = [run for run in runs if run["seconds"]]
    if not runs:
        return ""
    if len(done) < len(runs):
        return f"never, {len(runs) - len(done)} of {len(runs)}"
    return ", ".join(spread([float(run[name]) for run in done], form) for name, form in columns)


def tables(path):
    with open(path, encoding="utf-8", newline="") as file:
        runs = list(csv.DictReader(file))
    names = [name for name in CONTESTANTS if any(run["contestant"] == name for run in runs)]
    for title, columns in (
        ("seconds over ideal, loss", [("ratio", "%.2f"), ("loss", "%.3f")]),
        ("seconds, total, steps lost", [("seconds", "%.1f"), ("total", "%.1f"), ("lost", "%.0f")]),
        ("work, contention, sharing, end", [(k, "%.3f") for k in FIELDS[-4:]]),
    ):
        print(f"\n| {title} | " + " | ".join(CONTESTANTS[name][0] for name in names) + " |")
        print("|---" * (len(names) + 1) + "|")
        for case, (what, *_) in CASES.items():
            cells = [cell([r for r in runs if (r["case"], r["contestant"]) == (case, name)],
                          *columns) for name in names]
            if any(cells):
                print(f"| {what} | " + " | ".join(cells) + " |")


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--rounds", type=int, default=3)
    words.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    words.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    words.add_argument("--steps", type=int, default=2000)
    words.add_argument("--csv", default="rivals.csv", metavar="FILE")
    words = words.parse_args()
    try:
        import torch  # noqa: F401
    except ImportError as missing:
        sys.exit(f"rivals.py: {sys.executable}: {missing}; ./test --with-torch makes "
                 ".deps/torch/bin/python, which has it")
    wanted = words.contestants
    try:
        import torchft  # noqa: F401
    except ImportError as missing:
        wanted = [name for name in wanted if name != "torchft"]
        print(f"SKIPPED: torchft: {missing}")
    for k in range(words.rounds):
        for case in words.cases:
            for name in wanted:
                row = {"case": case, "contestant": name, "steps": words.steps}
                row |= Run(name, CASES[case], words.steps).row()
                append(words.csv, row)
                print(f"round {k + 1} of {words.rounds}: {row}", file=sys.stderr, flush=True)
    tables(words.csv)


if __name__ == "__main__":
    main()
