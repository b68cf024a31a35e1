#!/usr/bin/env python3
"""What a joined script pays, and four of them on a ring beside DDP with Gloo. Needs torch.

    guest_bench.py step [ROUNDS] [MODEL...]    bare loop, joined, joined with exchanges
    guest_bench.py hook                        a STEP beside a question, and beside a copy
    guest_bench.py seat                        from SIGKILL to a free seat, loader workers alive
    guest_bench.py ring [ROUNDS]               four guests and DDP, also with a slow one
    guest_bench.py loss [ROUNDS] [STEPS]       four guests and DDP at equal samples, by step size

Read ratios within one run. `step` takes four steps of each in turn, the script on one core and the
nodes, which stand still while it is not their turn, on another; `ring` takes turns of two seconds,
forth and back in a round. Medians over rounds, ranges in brackets. $GRAPEVINE is the program,
build/release/grapevine without it.
"""

import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
os.environ.setdefault("GRAPEVINE", os.path.join(ROOT, "build/release/grapevine"))
os.environ.setdefault("GRAPEVINE_DATA", os.path.join(ROOT, "..", "shared", "data"))
for folder in ("app/python", "tests/python", "examples/python"):
    sys.path.insert(0, os.path.join(ROOT, folder))
os.environ["PYTHONPATH"] = os.path.join(ROOT, "app/python")

import torch  # noqa: E402
import torch.distributed as distributed  # noqa: E402
import torch.multiprocessing as processes  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import grapevine  # noqa: E402
import shakespeare  # noqa: E402
from failures_test import Script  # noqa: E402
from grapevine.layout import layout_of  # noqa: E402
from grapevine.wire import ANY_RANK, Connection, Kind, Record  # noqa: E402
from networks import linear  # noqa: E402
from node import Node, until  # noqa: E402

CHUNK = 4


def cnn():
    """0.42 M parameters."""
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10)),
    )


def mlp():
    """10.0 M parameters and little work for each: the worst case."""
    wide = [nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *wide, nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))


class Transformer(nn.Module):
    """10.8 M parameters, tied embeddings; 4 pieces of 128."""

    def __init__(self, width=384):
        super().__init__()
        self.codes = nn.Embedding(256, width)
        self.places = nn.Parameter(torch.zeros(128, width))
        layer = nn.TransformerEncoderLayer(
            width, 6, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)

    def forward(self, codes):
        mask = nn.Transformer.generate_square_subsequent_mask(128)
        hidden = self.layers(self.codes(codes) + self.places, mask=mask, is_causal=True)
        return hidden @ self.codes.weight.T


def images(generator):
    pixels = torch.randn(32, 1, 28, 28, generator=generator)
    return pixels, torch.randint(10, (32,), generator=generator)


def words(generator):
    codes = torch.randint(256, (4, 129), generator=generator)
    return codes[:, :-1], codes[:, 1:]


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.01, momentum=0.9, weight_decay=5e-4)


def adamw(parameters):
    return torch.optim.AdamW(parameters, 1e-4)


MODELS = {
    "cnn-sgd": (cnn, sgd, images),
    "cnn-adamw": (cnn, adamw, images),
    "transformer": (Transformer, adamw, words),
    "mlp-sgd": (mlp, sgd, images),
}


class Loop:
    """A training loop; `run` takes CHUNK steps: of each its seconds and those of the processor."""

    def __init__(self, make, make_optimizer, batch):
        torch.manual_seed(1)
        self.make = make
        self.model = make()
        self.optimizer = make_optimizer(self.model.parameters())
        self.batch = batch
        self.generator = torch.Generator().manual_seed(0)
        self.node = self.rank = self.idle = None

    def join(self, exchanges):
        """At a node of its own; for exchanges beside a second rank, which steps once: a rank that
        never stepped exchanges nothing.

        The rate is thrice what is wanted, for the node stands still two thirds of the time.
        """
        self.node = Node(2, "--rate", "3") if exchanges else Node()
        os.sched_setaffinity(self.node.process.pid, {max(os.sched_getaffinity(0)) + 1})
        self.rank = grapevine.join(self.model, self.optimizer, self.node.path)
        if exchanges:
            self.idle = grapevine.join(self.make(), None, self.node.path)
            self.idle.step()
        return self

    def run(self):
        if self.node:
            self.node.signal(signal.SIGCONT)
        times = []
        for _ in range(CHUNK):
            begin, spent = time.perf_counter(), time.thread_time()
            inputs, wanted = self.batch(self.generator)
            self.optimizer.zero_grad()
            scores = self.model(inputs)
            functional.cross_entropy(scores.flatten(0, -2), wanted.flatten()).backward()
            self.optimizer.step()
            times.append((time.perf_counter() - begin, time.thread_time() - spent))
        if self.node:
            self.node.signal(signal.SIGSTOP)
        return times

    def close(self):
        if self.node:
            self.node.signal(signal.SIGCONT)
            for rank in filter(None, (self.rank, self.idle)):
                rank.close()
            self.node.close()


def spread(values):
    return "x%.3f (%.3f-%.3f)" % (statistics.median(values), min(values), max(values))


def bench_step(rounds, names):
    os.sched_setaffinity(0, {0})
    for name in names:
        bare = Loop(*MODELS[name])
        loops = [Loop(*MODELS[name]).join(False), Loop(*MODELS[name]).join(True)]
        ratios, spent, made = [[], []], [[], []], []
        for k in range(rounds + 1):
            times = [[] for _ in range(3)]
            for _ in range(2):
                for at, loop in enumerate([bare, *loops]):
                    times[at] += loop.run()
            middle = [statistics.median(seconds for seconds, _ in t) for t in times]
            busy = [statistics.median(seconds for _, seconds in t) for t in times]
            if k > 0:  # the first warms up
                made.append(1e3 * middle[0])
                for at in (0, 1):
                    ratios[at].append(middle[at + 1] / middle[0])
                    spent[at].append(busy[at + 1] / busy[0])
        per_step = loops[1].rank.exchanges / max(1, loops[1].rank.steps)
        print("%-12s bare %.2f ms, joined %s, with %.1f exchanges a step %s; of the script's "
              "processor time %s, %s" % (
                  name, statistics.median(made), spread(ratios[0]), per_step, spread(ratios[1]),
                  spread(spent[0]), spread(spent[1])), flush=True)
        for loop in loops:
            loop.close()


def timed(work, times):
    begin = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - begin) / times


def bench_hook():
    """In a tight loop: a STEP beside a question that the node answers alone, and beside a copy."""
    with Node() as node, grapevine.join(nn.Linear(10, 10), None, node.path) as rank:
        question = Record(kind=Kind.KEPT)
        pairs = [(timed(rank.step, 500), timed(lambda: rank._seat.node.ask(question), 500))
                 for _ in range(9)]
        print("a STEP of 110 parameters %.1f us, %s a question that the node answers alone" % (
            1e6 * statistics.median(p[0] for p in pairs), spread([a / b for a, b in pairs])))
    with Node() as node, grapevine.join(mlp(), None, node.path) as rank:
        source, target = torch.randn(10_000_000), torch.zeros(10_000_000)
        timed(rank.step, 5)  # memory that nobody has touched yet
        pairs = [(timed(rank.step, 5), timed(lambda: target.copy_(source), 5)) for _ in range(9)]
        if rank.alone:
            sys.exit("the node was silent for five seconds: the machine has too much else to do")
        print("a STEP of 10.0 M parameters %.2f ms, %s a copy of as many" % (
            1e3 * statistics.median(p[0] for p in pairs), spread([a / b for a, b in pairs])))


def bench_seat(rounds):
    """Scripts with and without workers of a data loader, which inherit all that they have open."""
    for words in ([], ["loader=fork"], ["loader=forkserver"], ["loader=spawn"]):
        times = []
        for _ in range(rounds):
            with Node() as node:
                script = Script(node, *words)
                script.until_going()
                begin = time.perf_counter()
                script.process.kill()
                text = layout_of(linear(), []).text("")
                while True:
                    try:
                        visitor = Connection(node.path)
                        visitor.ask(Record(kind=Kind.JOIN, rank=ANY_RANK, size=len(text)), text)
                        break
                    except grapevine.Refused:
                        visitor.close()
                times.append(1e3 * (time.perf_counter() - begin))
                visitor.close()
                script.kill()
        print("seat free after SIGKILL, %s: %.0f ms (%.0f-%.0f)" % (
            " ".join(words) or "no loader", statistics.median(times), min(times), max(times)))


@dataclass
class Task:
    """What each of four does; so many steps, or for ever where that is 0."""

    steps: int = 0
    slow: float = 1  # times; the last of the four
    lr: float = 3e-3
    seed: int = 0


class Told:
    """What four processes tell while they go on, and whether it is their turn."""

    def __init__(self, context):
        self.turn = context.Value("b", True, lock=False)
        self.steps = context.Array("Q", 4, lock=False)
        self.exchanges = context.Array("Q", 4, lock=False)
        self.busy = context.Array("d", 4, lock=False)  # processor seconds
        self.waits = context.Array("b", 4, lock=False)

    def wait(self, place):
        while not self.turn.value:
            self.waits[place] = True
            time.sleep(0.001)
        self.waits[place] = False

    def step(self, place, exchanges):
        self.busy[place] = time.process_time()
        self.exchanges[place] = exchanges
        self.steps[place] += 1


def one_of_four(place, path, folder, task, told, queue):
    """A process of DDP (without a path), or a guest."""
    torch.set_num_threads(1)
    torch.manual_seed(task.seed)
    model = shakespeare.Reader()
    rank = None
    if not path:
        group = f"file://{folder}/group"
        distributed.init_process_group("gloo", rank=place, world_size=4, init_method=group)
        stepped = nn.parallel.DistributedDataParallel(model)
    else:
        stepped = model
    optimizer = torch.optim.AdamW(model.parameters(), task.lr)
    if path:
        rank = grapevine.join(model, optimizer, path, rank=place)
    codes = shakespeare.text()
    part = len(codes) * 9 // 10 // 4
    own, held_out = codes[place * part : (place + 1) * part], codes[-len(codes) // 10 :]
    generator = torch.Generator().manual_seed(4 * task.seed + place)
    factor = task.slow if place == 3 else 1
    made, computed = 0, []
    while made < task.steps or not task.steps:
        told.wait(place)
        started = time.perf_counter()
        optimizer.zero_grad()
        shakespeare.loss_of(stepped, shakespeare.pieces_of(own, generator)).backward()
        computed = [*computed[-8:], time.perf_counter() - started]
        time.sleep((factor - 1) * statistics.median(computed))  # what stood still meanwhile is none
        optimizer.step()
        made += 1
        told.step(place, rank.exchanges if rank else 0)
    if rank:
        state = rank.finish()
        rank.close()
        model.load_state_dict(state)
    queue.put((place, held_out_loss(model, held_out)))
    if not path:
        distributed.destroy_process_group()


class Four:
    """Four processes, DDP's or guests' with their node, that take turns with other fours."""

    def __init__(self, guests, task, *options):
        self.folder = tempfile.mkdtemp(prefix="gv-")
        self.address = f"unix:{self.folder}/node.sock"
        self.node = Node(4, "--listen", self.address, *options) if guests else None
        context = processes.get_context("spawn")
        self.told, self.queue = Told(context), context.SimpleQueue()
        path = self.node.path if guests else ""
        arguments = (path, self.folder, task, self.told, self.queue)
        self.processes = [context.Process(target=one_of_four, args=(place, *arguments), daemon=True)
                          for place in range(4)]
        for process in self.processes:
            process.start()

    def turn(self, on):
        """A node stands still once nobody waits for its answer: else it would be taken for gone."""
        if on and self.node:
            self.node.signal(signal.SIGCONT)
        self.told.turn.value = on
        if not on and self.node:
            until("the end of the steps under way", lambda: all(self.told.waits), 120)
            self.node.signal(signal.SIGSTOP)

    def until_warm(self):
        until("ten steps of each", lambda: min(self.told.steps) >= 10, 300)

    def so_far(self):
        """Steps, exchanges and processor seconds: of each, and of the node; what the three have
        exchanged among themselves."""
        told, edges = self.told, grapevine.status(self.address)["edges"] if self.node else []
        among = sum(edge["exchanges"] for edge in edges if 3 not in edge["ranks"])
        return [*told.steps], [*told.exchanges], [*told.busy], node_seconds(self.node), among

    def losses(self):
        """At the end of the steps that it has."""
        return [loss for _, loss in sorted(self.queue.get() for _ in range(4))]

    def close(self):
        for process in self.processes:
            process.kill()
            process.join()
        if self.node:
            self.node.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def node_seconds(node):
    """Of the processor, of all its threads."""
    if not node:
        return 0.0
    with open(f"/proc/{node.process.pid}/stat", encoding="ascii") as file:
        user, system = file.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@dataclass
class Slice:
    """What a four has done in its turn."""

    steps: int
    seconds: float
    busy: float  # processor seconds, the node's among them
    three_steps: int  # of those that nobody slows down
    three_exchanges: int
    three_among: int  # of these the ones among themselves
    three_busy: float


def turn_of(four, seconds):
    four.turn(True)
    (steps, exchanges, busy, served, among), begin = four.so_far(), time.perf_counter()
    time.sleep(seconds)
    took, (steps_now, exchanges_now, busy_now, served_now, among_now) = (
        time.perf_counter() - begin, four.so_far())
    four.turn(False)
    made, met, spent = (
        [b - a for a, b in zip(*pair)]
        for pair in ((steps, steps_now), (exchanges, exchanges_now), (busy, busy_now)))
    return Slice(sum(made), took, sum(spent) + served_now - served, sum(made[:3]), sum(met[:3]),
                 among_now - among, sum(spent[:3]))


def held_out_loss(model, codes):
    with torch.no_grad():
        generator = torch.Generator().manual_seed(99)
        drawn = (shakespeare.pieces_of(codes, generator) for _ in range(40))
        return statistics.mean(shakespeare.loss_of(model, pieces).item() for pieces in drawn)


TURN_S = 2.0


def bench_ring(rounds):
    """Guests and DDP side by side in turns of two seconds, so that other work on the machine meets
    both alike; one of four made slow by waiting after its gradient, beside four without."""
    for slow in (1, 3, 10):
        fours = [Four(True, Task(slow=slow)), Four(False, Task(slow=slow))]
        if slow > 1:
            fours.append(Four(True, Task()))
        try:
            for four in fours:
                four.until_warm()
                four.turn(False)
            taken = []
            for k in range(2 * rounds):
                order = range(len(fours)) if k % 2 == 0 else reversed(range(len(fours)))
                turns = {at: turn_of(fours[at], TURN_S) for at in order}
                taken.append([turns[at] for at in range(len(fours))])
        finally:
            for four in fours:
                four.close()
        report_ring(slow, [[sum_of(pair) for pair in zip(*taken[k : k + 2])]
                           for k in range(0, len(taken), 2)])


def sum_of(slices):
    return Slice(*(sum(values) for values in zip(*(vars(s).values() for s in slices))))


def report_ring(slow, rows):
    """A row a round: a turn of each four in one order, and one in the other."""
    pace = spread([(a.steps / a.seconds) / (b.steps / b.seconds) for a, b, *_ in rows])
    cost = spread([(a.steps / a.busy) / (b.steps / b.busy) for a, b, *_ in rows])
    met = statistics.median(a.three_exchanges / max(1, a.three_steps) for a, *_ in rows)
    print("one of four x%d slower: steps a second %s those of DDP, a processor second %s; "
          "%.1f exchanges a step" % (slow, pace, cost, met), flush=True)
    if slow > 1:
        ratios = [[(getattr(a, what) / a.three_busy) / (getattr(even, what) / even.three_busy)
                   for a, _, even in rows]
                  for what in ("three_steps", "three_exchanges", "three_among")]
        print("   the other three beside no slow one: per processor second steps %s, exchanges %s, "
              "among themselves %s" % tuple(map(spread, ratios)), flush=True)


def lockstep(task):
    """What gossip cannot surpass: four optimizers, whose models are averaged after every step."""
    torch.manual_seed(task.seed)
    models = [shakespeare.Reader() for _ in range(4)]
    optimizers = [torch.optim.AdamW(m.parameters(), task.lr) for m in models]
    codes = shakespeare.text()
    part = len(codes) * 9 // 10 // 4
    generators = [torch.Generator().manual_seed(4 * task.seed + place) for place in range(4)]
    for model in models[1:]:
        model.load_state_dict(models[0].state_dict())
    for _ in range(task.steps):
        for place, (model, optimizer) in enumerate(zip(models, optimizers)):
            own = codes[place * part : (place + 1) * part]
            optimizer.zero_grad()
            shakespeare.loss_of(model, shakespeare.pieces_of(own, generators[place])).backward()
            optimizer.step()
        with torch.no_grad():
            for tensors in zip(*(model.parameters() for model in models)):
                mean = torch.stack(tensors).mean(0)
                for tensor in tensors:
                    tensor.copy_(mean)
    return held_out_loss(models[0], codes[-len(codes) // 10 :])


def alone(guests, task, *options):
    """Four that nobody takes turns with: the loss of their mean, and exchanges a step."""
    four = Four(guests, task, *options)
    try:
        loss = four.losses()[0]
        return loss, sum(four.told.exchanges) / sum(four.told.steps)
    finally:
        four.close()


def bench_loss(rounds, steps):
    """As many steps of each of four, from the same starts, over the same samples."""
    for lr in (3e-3, 6e-3):
        losses = {}
        for seed in range(rounds):
            task = Task(steps=steps, lr=lr, seed=seed)
            losses.setdefault("DDP", []).append(alone(False, task)[0])
            losses.setdefault("averaged after every step", []).append(lockstep(task))
            for rate in ("1", "4"):
                loss, met = alone(True, task, "--rate", rate)
                losses.setdefault(f"rate {rate}", []).append(loss)
                losses.setdefault(f"rate {rate}, exchanges a step", []).append(met)
        print("lr %g, %d steps: %s" % (lr, steps, "; ".join(
            "%s %.3f (%.3f-%.3f)" % (name, statistics.median(v), min(v), max(v))
            for name, v in losses.items())), flush=True)


def main():
    torch.set_num_threads(1)
    words = sys.argv[1:] or ["step"]
    rounds = next((int(word) for word in words if word.isdigit()), 9)
    if words[0] == "step":
        bench_step(rounds, [word for word in words if word in MODELS] or list(MODELS))
    elif words[0] == "hook":
        bench_hook()
    elif words[0] == "seat":
        bench_seat(min(rounds, 5))
    elif words[0] == "ring":
        bench_ring(rounds)
    elif words[0] == "loss":
        numbers = [int(word) for word in words if word.isdigit()]
        bench_loss(*(numbers + [3, 400][len(numbers):]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
