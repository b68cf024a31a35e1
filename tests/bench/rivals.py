#!/usr/bin/env python3
"""Four processes of one training script: DDP with Gloo, torchft, and Grapevine's guests.

    rivals.py [ROUNDS] [ddp | torchft | torchft-1s | grapevine ...]

Each process trains the small transformer of examples/python/shakespeare.py, and a step takes 40 ms
at least, as on an accelerator of its own: so four share two cores and none waits for a core. A
round is one run of each kind of each of these:

    even    all four alike
    slow    the last is three, then ten times slower
    stop    the last stands still (SIGSTOP) for six seconds, as a machine that swaps, or a cable
            that is out
    kill    the last is killed (SIGKILL) instead
    back    and started again three seconds later

It prints medians over rounds, ranges in brackets: the steps of all four a second, beside a slow one
as a fraction of those without; the longest time from the stop or the kill on in which none of the
other three takes a step, in steps of 40 ms too; what the three do in the four seconds after it, as
a fraction of the four seconds before; from join to the first step of the one that came back.

Needs torch; torchft (tried with 0.2.0) where it can be imported, else it is left out, aloud. It has
its own defaults, and as a kind of its own a heartbeat of one second instead of five. $GRAPEVINE is
the program, build/release/grapevine without it.
"""

import os
import signal
import statistics
import struct
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
os.environ.setdefault("GRAPEVINE", os.path.join(ROOT, "build/release/grapevine"))
os.environ.setdefault("GRAPEVINE_DATA", os.path.join(ROOT, "..", "shared", "data"))
for folder in ("app/python", "tests/python", "examples/python"):
    sys.path.insert(0, os.path.join(ROOT, folder))

import torch  # noqa: E402
import torch.distributed as distributed  # noqa: E402
import torch.multiprocessing as processes  # noqa: E402

import grapevine  # noqa: E402
import shakespeare  # noqa: E402
from node import Node, until  # noqa: E402

STEP_S = 0.04
RUN_S, TROUBLE_S, STOP_S, BACK_S, AFTER_S = 12.0, 5.0, 6.0, 3.0, 4.0
RANKS = 4
PATIENCE_S = 30


class Trace:
    """When a process took its steps: a file that outlives it, whatever ends it."""

    def __init__(self, folder, place):
        self.path = os.path.join(folder, f"steps-{place}")

    def writer(self):
        return open(self.path, "ab", buffering=0)

    def times(self):
        if not os.path.exists(self.path):
            return []
        with open(self.path, "rb") as written:
            return [at for (at,) in struct.iter_unpack("<d", written.read())]


class Ddp:
    """DistributedDataParallel with Gloo."""

    def __init__(self, folder):
        self.folder = folder

    def join(self, place, model, optimizer):
        distributed.init_process_group(
            "gloo", rank=place, world_size=RANKS, init_method=f"file://{self.folder}/group"
        )
        return torch.nn.parallel.DistributedDataParallel(model), optimizer

    def share(self):
        pass  # done in the backward pass

    def close(self):
        pass


class TorchFt:
    """torchft with Gloo: a replica group a process, and a lighthouse for all."""

    def __init__(self, folder, heartbeat_ms=None):
        from torchft.coordination import LighthouseServer

        more = {"heartbeat_timeout_ms": heartbeat_ms} if heartbeat_ms else {}
        self.server = LighthouseServer(bind="127.0.0.1:0", min_replicas=1, **more)
        self.address = self.server.address()

    def __getstate__(self):  # a process needs the address alone
        return {"address": self.address}

    def join(self, place, model, optimizer):
        from torchft import Manager, Optimizer, ProcessGroupGloo

        store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

        def load(state):
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])

        def state():
            return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

        self.manager = Manager(
            pg=ProcessGroupGloo(), load_state_dict=load, state_dict=state, min_replica_size=1,
            replica_id=f"replica_{place}", rank=0, world_size=1, store_addr="127.0.0.1",
            store_port=store.port, lighthouse_addr=self.address, hostname="127.0.0.1",
        )
        self.store, self.model = store, model
        return model, Optimizer(self.manager, optimizer)

    def share(self):
        """Its own wrapper of DDP ends with an assertion when a neighbour dies: so by hand."""
        gradients = [p.grad for p in self.model.parameters()]
        flat = torch.cat([g.flatten() for g in gradients])
        self.manager.allreduce(flat).wait()
        for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients])):
            gradient.copy_(part.view_as(gradient))

    def close(self):
        self.server.shutdown()


class Quick(TorchFt):
    """torchft whose lighthouse takes a replica for dead after a second."""

    def __init__(self, folder):
        super().__init__(folder, heartbeat_ms=1000)


class Guests:
    """Scripts on a ring of four ranks, in one node."""

    def __init__(self, folder):
        self.node = Node(RANKS)
        self.path = self.node.path

    def __getstate__(self):
        return {"path": self.path}

    def join(self, place, model, optimizer):
        self.rank = grapevine.join(model, optimizer, self.path, rank=place)
        return model, optimizer

    def share(self):
        pass  # nobody waits for anybody

    def close(self):
        self.node.close()


KINDS = {
    "ddp": ("DDP, Gloo", Ddp),
    "torchft": ("torchft", TorchFt),
    "torchft-1s": ("torchft, heartbeat of 1 s", Quick),
    "grapevine": ("Grapevine", Guests),
}


def train(kind, place, folder, factor, end):
    """One of the four, until `end` of the monotonic clock."""
    torch.set_num_threads(1)
    torch.manual_seed(place)
    model = shakespeare.Reader()
    with Trace(folder, f"{place}-joins").writer() as trace:
        trace.write(struct.pack("<d", time.monotonic()))
    stepped, optimizer = kind.join(place, model, torch.optim.AdamW(model.parameters(), 3e-3))
    codes = shakespeare.text()
    part = len(codes) // RANKS
    own = codes[place * part : (place + 1) * part]
    generator = torch.Generator().manual_seed(place)
    with Trace(folder, place).writer() as trace:
        while time.monotonic() < end:
            started = time.monotonic()
            optimizer.zero_grad()
            loss = shakespeare.loss_of(stepped, shakespeare.pieces_of(own, generator))
            time.sleep(max(0.0, started + factor * STEP_S - time.monotonic()))
            loss.backward()
            kind.share()
            optimizer.step()
            trace.write(struct.pack("<d", time.monotonic()))
    os._exit(0)  # whatever waits for the others at an orderly end is not what is measured


class Run:
    """Four processes of one kind; `steps[k]`: when process k took its steps."""

    def __init__(self, kind, slow=1, trouble=""):
        with tempfile.TemporaryDirectory(prefix="grapevine-rivals-") as folder:
            self.kind = KINDS[kind][1](folder)
            self.folder, self.end = folder, time.monotonic() + 600
            self.processes = {}
            try:
                self.__run(slow, trouble)
            finally:
                for process in self.processes.values():
                    process.kill()
                    process.join()
                self.kind.close()

    def __start(self, place, factor, end):
        context = processes.get_context("spawn")
        process = context.Process(target=train, args=(self.kind, place, self.folder, factor, end))
        process.start()
        self.processes[place] = process

    def __run(self, slow, trouble):
        traces = [Trace(self.folder, place) for place in range(RANKS)]
        for place in range(RANKS):
            self.__start(place, slow if place == RANKS - 1 else 1, self.end)
        until("everybody's first steps", lambda: all(len(t.times()) > 10 for t in traces), 120)
        self.begin = time.monotonic()
        if trouble:
            self.__make(trouble, traces[-1])
        time.sleep(max(0.0, self.begin + RUN_S - time.monotonic()))
        self.over = time.monotonic()
        self.steps = [[at for at in t.times() if self.begin <= at <= self.over] for t in traces]

    def __make(self, trouble, trace):
        time.sleep(TROUBLE_S)
        last = self.processes[RANKS - 1]
        os.kill(last.pid, signal.SIGSTOP if trouble == "stop" else signal.SIGKILL)
        self.trouble = time.monotonic()
        if trouble == "stop":
            time.sleep(STOP_S)
            os.kill(last.pid, signal.SIGCONT)
        if trouble == "back":
            last.join()
            before = len(trace.times())
            time.sleep(BACK_S)
            started = time.monotonic()
            self.__start(RANKS - 1, 1, self.end)
            while len(trace.times()) == before and time.monotonic() < started + PATIENCE_S:
                time.sleep(0.01)
            again = trace.times()[before:]
            joined = Trace(self.folder, f"{RANKS - 1}-joins").times()[-1]
            self.first_back = again[0] - joined if again else None

    def rate(self):
        return sum(len(times) for times in self.steps) / (self.over - self.begin)

    def others(self):
        return [at for times in self.steps[: RANKS - 1] for at in times]

    def silence(self):
        """The longest time after it in which none of the other three took a step."""
        late = sorted(at for at in self.others() if at > self.trouble) + [self.over]
        return max(b - a for a, b in zip([self.trouble] + late, late))

    def kept(self):
        """Of the others' steps in the four seconds before it, those in the four after it."""
        def within(begin):
            return sum(begin < at <= begin + AFTER_S for at in self.others())
        return within(self.trouble) / within(self.trouble - AFTER_S)


def spread(values, form="%.2f"):
    one = form % statistics.median(values)
    return f"{one} ({form % min(values)}-{form % max(values)})" if len(values) > 1 else one


def report(name, rows):
    print(name, flush=True)
    print("  steps a second, all alike            %s" % spread(rows["even"], "%.1f"))
    for slow in (3, 10):
        print("  one %2d times slower: of those        %s" % (slow, spread(rows[slow])))
    for trouble, what in (("stop", "one stopped for 6 s"), ("kill", "one killed")):
        silences = [silence for silence, _ in rows[trouble]]
        print("  %-37s%s s of silence, %s steps" % (
            what, spread(silences), spread([s / STEP_S for s in silences], "%.1f")))
        print("     of their steps the others keep    %s" % spread([k for _, k in rows[trouble]]))
    back = [s for s in rows["back"] if s is not None]
    print("     the one that came back: a step    %s" % (
        "%s s after it joins" % spread(back) if back else "never in %.0f s" % PATIENCE_S), flush=True)


def main():
    words = sys.argv[1:]
    rounds = next((int(word) for word in words if word.isdigit()), 3)
    wanted = [word for word in words if word in KINDS] or list(KINDS)
    if len(words) > len(wanted) + 1:
        sys.exit(__doc__)
    try:
        import torchft  # noqa: F401
    except ImportError as missing:
        wanted = [kind for kind in wanted if not kind.startswith("torchft")]
        print(f"SKIPPED: torchft: {missing}")
    rows = {kind: {what: [] for what in ("even", 3, 10, "stop", "kill", "back")}
            for kind in wanted}
    for k in range(rounds):
        for kind, row in rows.items():
            print(f"round {k + 1} of {rounds}: {KINDS[kind][0]}", file=sys.stderr, flush=True)
            even = Run(kind).rate()
            row["even"].append(even)
            for slow in (3, 10):
                row[slow].append(Run(kind, slow).rate() / even)
            for trouble in ("stop", "kill"):
                run = Run(kind, trouble=trouble)
                row[trouble].append((run.silence(), run.kept()))
            row["back"].append(Run(kind, trouble="back").first_back)
    for kind, row in rows.items():
        report(KINDS[kind][0], row)


if __name__ == "__main__":
    main()
