#!/usr/bin/env python3
"""Four processes on slow links: who computes, and who waits for the network.

    shaped_links.py [--rates MBIT ...] [--jobs ...] [--contestants ...] [--seconds T] [--steps N]
                    [--outer RATE MOMENTUM] [--delay MS] [--rounds N] [--node OPTIONS]

Needs root. Each process is alone on a machine, a network namespace with a link of so many Mbit/s
each way (tbf) and a delay of 20 ms from machine to machine (shaped_links_net.py). The links are
measured alone first. A step is as long as if an accelerator computed it (rivals_job.py), so that
four processes share two cores and none waits for one. Jobs:

    images  rivals_job.py: 0.1 M parameters, steps of 40 ms, an exchange at each step; so many steps
    text    shaped_links_job.py: 10.8 M parameters, steps of 0.4 s, 30 steps of each process
            between two exchanges; for so many seconds
    slow    the same with one process 3x slower, for so many seconds' worth of steps

Contestants: ddp with Gloo; torchft (of the images); diloco, which is torchft's (of text and slow);
grapevine, a node and a script that joins it on each machine, method a2cid2, and what --node says
(--node="--rate 4 --wire bf16"). What needs torchft is skipped where it cannot be imported.

A row of the table: `compute`, the length of all steps over the time of all processes from the first
step to the end of the last; `late`, by how much steps were longer than that, over the same time
(with ddp this is the network, which it uses during a step); exchanges of a process for each step
(of text, for each 30); MB that a process sent a second; seconds, those of them after the last step,
and all over the ideal of rivals.py; loss of the final model on held-out data. $GRAPEVINE_DATA has
the data (../shared/data without it).
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
os.environ.setdefault("GRAPEVINE_DATA", os.path.join(ROOT, "..", "shared", "data"))
sys.path.append(os.path.join(ROOT, "examples/python"))

import rivals  # noqa: E402
from shaped_links_net import Net  # noqa: E402

RANKS, VICTIM, EVERY, START_S, PATIENCE = rivals.RANKS, rivals.VICTIM, 30, 90, 15
PORT, SAMPLE_S = 7001, 10  # a sample of 10.8 M parameters takes 0.2 s of a core
FILES = {"images": "fashion-mnist/train-images-idx3-ubyte.gz", "text": "tiny-shakespeare/input.txt"}


class Job(NamedTuple):
    script: str
    contestants: tuple
    step_s: float
    every: int = 1
    timed: bool = False
    factor: int = 1  # of the last's steps
    data: str = "text"


READING = os.path.join(HERE, "shaped_links_job.py")
JOBS = {
    "images": Job(rivals.SCRIPT, ("grapevine", "torchft", "ddp"), rivals.STEP_S, data="images"),
    "text": Job(READING, ("grapevine", "diloco", "ddp"), 0.4, EVERY, timed=True),
    "slow": Job(READING, ("grapevine", "diloco", "ddp"), 0.4, EVERY, factor=3),
}


class Four(rivals.Contestant):
    """Four processes of a job, one on each machine."""

    def __init__(self, folder, net, kind, job, words):
        self.net, self.kind, self.of = net, kind, job
        steps = 0 if job.timed else words.steps
        if job.factor > 1:
            pace = (RANKS - 1 + 1 / job.factor) / job.step_s
            steps = RANKS * EVERY * round(words.seconds * pace / (RANKS * EVERY))
        super().__init__(folder, rivals.Case("", factor=job.factor), steps)
        self.seconds = words.seconds if job.timed else 0
        self.more = words.node.split()
        self.key = os.path.join(folder, "run.key")
        self.told = {
            "steps": steps, "seconds": self.seconds, "step_s": job.step_s, "victim": VICTIM,
            "factor": job.factor, "every": EVERY, "outer": words.outer, "lr": words.lr,
            "checkpoint_steps": rivals.CHECKPOINT_STEPS,
            "lighthouse": f"http://{net.address(0)}:{PORT}",
        }

    def start(self):
        with open(os.path.join(self.folder, "job.json"), "w", encoding="utf-8") as file:
            json.dump(self.told, file)
        if self.kind in ("torchft", "diloco"):
            main = ("import signal; from torchft.coordination import LighthouseServer as Server; "
                    f"server = Server(bind='[::]:{PORT}', min_replicas={RANKS}); signal.pause()")
            self.begin("lighthouse", [*self.net.inside(0), sys.executable, "-c", main])
        surroundings = {"GLOO_SOCKET_IFNAME": "eth0", "MASTER_ADDR": self.net.address(0),
                        "MASTER_PORT": str(PORT), "WORLD_SIZE": str(RANKS),
                        "PYTHONPATH": ":".join([os.path.join(ROOT, "app/python"),
                                                os.environ.get("PYTHONPATH", "")])}
        if self.kind == "grapevine":
            os.chmod(self.folder, 0o700)
            surroundings["XDG_RUNTIME_DIR"] = self.folder
            subprocess.run([rivals.PROGRAM, "keygen", self.key], check=True, capture_output=True)
        for k in range(RANKS):
            if self.kind == "grapevine":
                self.__node(k, surroundings)
            door = os.path.join(self.folder, "grapevine", f"n{k}.door")
            self.begin(str(k), [*self.net.inside(k), sys.executable, self.of.script, self.kind],
                       JOB_PLACE=str(k), RANK=str(k), JOB_HOST=self.net.address(k),
                       GRAPEVINE_NODE=door, **surroundings)

    def __node(self, k, surroundings):
        words = ["--guests=1", f"--first-rank={k}", f"--total-ranks={RANKS}", "--no-save",
                 f"--node-name=n{k}", f"--listen={self.net.address(k)}:{PORT}",
                 f"--key={self.key}", "--no-bulk-encryption",
                 f"--gradients={self.steps}", "--patience=60", "--json",
                 f"--sample-seconds={SAMPLE_S}", *self.more]
        if k:
            words.append(f"--join={self.net.address(0)}:{PORT}")
        self.begin(f"node-{k}", [*self.net.inside(k), rivals.PROGRAM, "node", *words],
                   **surroundings)

    def ended(self):
        return all(self.processes[str(k)].poll() is not None for k in range(RANKS))

    def until_ended(self):
        longest = self.seconds or self.steps * self.of.step_s / RANKS
        end = time.monotonic() + START_S + PATIENCE * longest
        while not self.ended() and time.monotonic() < end:
            time.sleep(0.05)


def row(parts, four, sent_mb):
    """What the processes have noted, as a row of the table."""
    steps = [step for part in parts for step in part.steps]
    if not all(part.done and part.steps for part in parts):
        return None
    begin, last = min(step[0] for step in steps), max(step[2] for step in steps)
    pace = [four.of.step_s * (four.of.factor if k == VICTIM else 1) for k in range(RANKS)]
    work = sum(len(part.steps) * step_s for part, step_s in zip(parts, pace))
    spent = sum(computed - began for began, computed, _ in steps)
    over, whole = max(part.done for part in parts), RANKS * (last - begin)
    least = rivals.ideal(len(steps) if four.of.timed else four.steps, begin,
                         [(part.joins[0], float("inf"), step_s)
                          for part, step_s in zip(parts, pace)])
    met = [part.exchanges for part in parts if part.exchanges is not None]
    each = sum(met) * four.of.every / len(steps) if met else four.of.every
    return {
        "compute": work / whole, "late": (spent - work) / whole, "exchanges": each,
        "steps": len(steps), "mb": sent_mb / RANKS / (over - begin), "seconds": over - begin,
        "end": over - last, "ratio": (over - begin) / least,
        "loss": statistics.median(part.loss for part in parts if part.loss is not None),
    }


def run(net, kind, job, words):
    with tempfile.TemporaryDirectory(prefix="grapevine-links-") as folder:
        four = Four(folder, net, kind, job, words)
        try:
            before = net.sent_mb()
            four.start()
            four.until_ended()
            sent_mb = net.sent_mb() - before
        finally:
            four.close()
        parts = [rivals.Part(folder, k) for k in range(RANKS)]
        told = row(parts, four, sent_mb)
        if told is None or words.logs:
            for name in sorted(os.listdir(folder)):
                if name.startswith("log-"):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        print(f"--- {name}\n{file.read()[-3000:]}", file=sys.stderr, flush=True)
        return told


def report(rate, name, kind, told):
    if told is None:
        print(f"| {rate} | {name} | {kind} | not done |", flush=True)
        return
    print("| {} | {} | {} | {:.1%} | {:.1%} | {:.2f} | {} | {:.2f} | {:.1f} | {:.1f} | {:.3f} "
          "| {:.3f} |".format(rate, name, kind, *(told[k] for k in (
              "compute", "late", "exchanges", "steps", "mb", "seconds", "end", "ratio", "loss"))),
          flush=True)


def importable(name):
    try:
        __import__(name)
    except ImportError as missing:
        print(f"{name}: {missing}", flush=True)
        return False
    return True


def words_given():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--rates", type=int, nargs="+", default=[50, 200, 1000], metavar="MBIT")
    words.add_argument("--jobs", nargs="+", choices=JOBS, default=["images", "text"])
    kinds = ["grapevine", "diloco", "torchft", "ddp"]
    words.add_argument("--contestants", nargs="+", choices=kinds, default=kinds)
    words.add_argument("--seconds", type=float, default=120)
    words.add_argument("--steps", type=int, default=2000)
    words.add_argument("--outer", type=float, nargs=2, default=[0.7, 0.5])
    words.add_argument("--lr", type=float, default=1e-3)
    words.add_argument("--delay", type=float, default=20, metavar="MS")
    words.add_argument("--rounds", type=int, default=1)
    words.add_argument("--node", default="", metavar="OPTIONS", help="more options of the nodes")
    words.add_argument("--logs", action="store_true", help="print what the processes say")
    return words.parse_args()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing of ours stays
    words = words_given()
    if os.geteuid() != 0:
        sys.exit("shaped_links.py: network namespaces need root")
    if not importable("torch"):
        sys.exit("shaped_links.py: ./test --with-torch makes .deps/torch/bin/python, which has it")
    for file in {FILES[JOBS[name].data] for name in words.jobs}:
        path = os.path.join(os.environ["GRAPEVINE_DATA"], file)
        if not os.path.exists(path):
            sys.exit(f"shaped_links.py: no {path}: set GRAPEVINE_DATA to the folder of the data")
    wanted = words.contestants
    if not importable("torchft"):
        wanted = [kind for kind in wanted if kind not in ("torchft", "diloco")]
        print("SKIPPED: torchft and diloco")
    for rate in words.rates:
        with Net(RANKS, rate, words.delay) as net:
            one, least, round_trip_ms, share = net.measure()
            print(f"links of {rate} Mbit/s alone: one stream {one:.0f} Mbit/s, the slowest of "
                  f"{RANKS} at a time {least:.0f}; there and back {round_trip_ms:.1f} ms; the "
                  f"relay took {share:.0%} of a core", flush=True)
            print("\n| Mbit/s | job | who | compute | late | exchanges | steps | MB/s | seconds "
                  "| end | over ideal | loss |\n" + "|---" * 12 + "|", flush=True)
            for name in words.jobs * words.rounds:
                for kind in JOBS[name].contestants:
                    if kind in wanted:
                        report(rate, name, kind, run(net, kind, JOBS[name], words))
            print(flush=True)


if __name__ == "__main__":
    main()
