"""A language model on slow links, one process of it: shaped_links_job.py ddp | diloco | grapevine

The transformer of examples/python/shakespeare.py with 10.8 M parameters reads Tiny Shakespeare, a
piece of 32 characters a step, with AdamW. A step takes STEP_S or longer, as in rivals_job.py, which
says what a process writes; the optimizer's time is in it. DDP exchanges gradients while it computes
them. The others take `every` steps by themselves; what these did is a gradient for an outer
optimizer, SGD with Nesterov's momentum.

The job ends after so many seconds from the moment when all four are ready, or after so many steps
of all. Where processes step together, each ends with the step that is then under way.
"""

import math
import os
import sys
import time

from rivals_job import FOLDER, JOB, PLACE, Part, manager_of

import torch
import torch.distributed as distributed
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import shakespeare

RANKS, WARM_UP = 4, 0.05
shakespeare.WIDTH, shakespeare.LENGTH = 384, 32


class Reader(shakespeare.Reader):
    """With the scores of a place where the cross entropy of torch expects them."""

    def forward(self, codes):
        return super().forward(codes).transpose(1, 2)


class Pieces(Dataset):
    """Each piece of a text, and the same one character later."""

    def __init__(self, codes):
        self.codes = codes

    def __len__(self):
        return len(self.codes) - shakespeare.LENGTH - 1

    def __getitem__(self, at):
        end = at + shakespeare.LENGTH
        return self.codes[at:end], self.codes[at + 1 : end + 1]


class Reading(Part):
    """The part of the text: what a process computes."""

    batch = 1

    def __init__(self):
        super().__init__()
        self.begin = self.began = self.computed = None
        self.taken = 0
        # The first hook of the optimizer: it comes before those that exchange.
        self.optimizer.register_step_post_hook(self.end_compute)

    def make_data(self):
        codes = shakespeare.text()
        train, held_out = codes[: -len(codes) // 10], Pieces(codes[-len(codes) // 10 :])
        places = range(0, len(held_out), len(held_out) // 128)
        told = [torch.stack(pieces) for pieces in zip(*(held_out[at] for at in places))]
        return Pieces(train), TensorDataset(*told)

    def make_model(self):
        """The same at all: torchft's DiLoCo takes no other start."""
        torch.manual_seed(0)
        return Reader(layers=6, heads=6)

    def make_optimizer(self):
        return torch.optim.AdamW(self.model.parameters(), JOB["lr"], fused=True)

    def try_optimizer(self):
        return None

    def end_compute(self, *_):
        time.sleep(max(0.0, self.began + self.step_s - time.monotonic()))
        self.computed = time.monotonic()

    def ready(self):
        """Waits until all ask to take part; the time of the job begins."""
        self.join()
        while sum(b"join" in read(name) for name in os.listdir(FOLDER)
                  if name.startswith("part-")) < RANKS:
            time.sleep(0.005)
        self.free = self.begin = time.monotonic()

    def step(self, model, batch, progress):
        self.began = self.free
        rate = JOB["lr"] * min(1, progress / WARM_UP) * (0.5 + 0.5 * math.cos(3 * progress))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        pieces, wanted = batch
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(model(pieces), wanted).backward()
        self.optimizer.step()
        self.free = time.monotonic()
        self.taken += 1
        self.note("step", self.began, self.computed, self.free)

    def progress(self):
        """Of a job in which all take as many steps."""
        if JOB["seconds"]:
            return min(1.0, (time.monotonic() - self.begin) / JOB["seconds"])
        return self.taken * RANKS / JOB["steps"]

    def goes_on(self):
        """Whether those that step together begin another round: the first says so by a file."""
        path = os.path.join(FOLDER, f"round-{self.taken}")
        if PLACE == 0:
            with open(path + ".part", "w", encoding="ascii") as file:
                file.write("go" if self.progress() < 1 else "end")
            os.replace(path + ".part", path)
        while not os.path.exists(path):
            time.sleep(0.001)
        return read(path) == b"go"


def read(name):
    with open(os.path.join(FOLDER, name), "rb") as file:
        return file.read()


def ddp(part):
    distributed.init_process_group("gloo")
    model, batches = nn.parallel.DistributedDataParallel(part.model), part.batches()
    part.ready()
    while part.goes_on():
        part.step(model, next(batches), part.progress())
    part.done(part.taken * RANKS, part.model.state_dict())


def diloco(part):
    """torchft's, which wants a synchronous quorum. All models are equal at the start."""
    from torchft.local_sgd import DiLoCo

    part.ready()
    manager = manager_of(part, use_async_quorum=False, init_sync=False)
    rate, momentum = JOB["outer"]
    outer = torch.optim.SGD(part.model.parameters(), rate, momentum=momentum, nesterov=True)
    batches = part.batches()
    with DiLoCo(manager, [part.model], part.optimizer, outer, JOB["every"], use_bucketization=True):
        while part.goes_on():
            for _ in range(JOB["every"]):
                part.step(part.model, next(batches), part.progress())
    part.note("exchanges", manager.current_step())
    part.done(part.taken * RANKS, part.model.state_dict())
    sys.stdout.flush()
    os._exit(0)  # whatever waits for the others at an orderly end is not what is measured


def grapevine(part):
    """The five lines."""
    import grapevine as package

    rank = package.join(part.model, part.optimizer, every=JOB["every"], outer=tuple(JOB["outer"]))
    part.ready()
    progress = part.progress if JOB["seconds"] else lambda: rank.progress
    for batch in DataLoader(part.data, part.batch, sampler=rank.sampler(part.data)):
        part.step(part.model, batch, progress())
        if JOB["seconds"] and progress() == 1:
            break
    mean = rank.finish()
    part.done(rank.run_steps, mean)
    part.note("exchanges", rank.exchanges)
    rank.close()


if __name__ == "__main__":
    {"ddp": ddp, "diloco": diloco, "grapevine": grapevine}[sys.argv[1]](Reading())
