"""The job of rivals.py, one process of it: rivals_job.py ddp | elastic | torchft | grapevine

The same network, data, batches and optimizer whoever shares the work. A step of a process by itself
takes 40 ms: it waits until they are over, as if an accelerator computed, but for what the optimizer
takes, which comes after. So four processes share two cores and none waits for a core. $JOB is the
folder with job.json; there each process writes a file of its own, line by line, which outlives it:

    join T                  of the monotonic clock: it asks to take part
    step BEGAN COMPUTED T   a step: with its data and gradient there, and taken
    done T TAKEN            it has the final model, which so many steps of all have made
    loss L                  of that model on held-out data
    exchanges N             of a guest's rank with its neighbours

$JOB_HOST is the address of this machine, 127.0.0.1 without it.
"""

import json
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FOLDER = os.environ["JOB"]
PLACES = ("JOB_PLACE", "GRAPEVINE_SEAT", "LOCAL_RANK")
PLACE = int(next(os.environ[name] for name in PLACES if name in os.environ))
HOST = os.environ.get("JOB_HOST", "127.0.0.1")
with open(os.path.join(FOLDER, "job.json"), encoding="utf-8") as told:
    JOB = json.load(told)
back = os.path.join(FOLDER, "back")
if PLACE == JOB["victim"] and os.path.exists(back):  # a machine that has failed is away for a while
    with open(back, encoding="utf-8") as told:
        time.sleep(max(0.0, float(told.read()) - time.monotonic()))

import torch  # noqa: E402
import torch.distributed as distributed  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

sys.path.append(os.path.join(ROOT, "examples/python"))
from example_data import images  # noqa: E402

BATCH = 32


class Part:
    """One process of the job: its model and data, and what it has done."""

    batch = BATCH

    def __init__(self):
        torch.set_num_threads(1)
        torch.manual_seed(PLACE)
        self.data, self.held_out = self.make_data()
        self.model = self.make_model()
        self.optimizer = self.make_optimizer()
        self.step_s = JOB["step_s"] * (JOB["factor"] if PLACE == JOB["victim"] else 1)
        self.lines = open(os.path.join(FOLDER, f"part-{PLACE}-{os.getpid()}"), "ab", buffering=0)
        self.optimizer_s = self.try_optimizer()
        self.free = None  # when the last step ended

    def make_data(self):
        """To train on, and held out."""
        return images(20000)

    def make_model(self):
        return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))

    def make_optimizer(self):
        return torch.optim.SGD(self.model.parameters(), 0.02, momentum=0.9)

    def try_optimizer(self):
        """Seconds that it takes, with gradients that change nothing."""
        times = []
        for parameter in self.model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        for _ in range(20):
            began = time.monotonic()
            self.optimizer.step()
            times.append(time.monotonic() - began)
        return statistics.median(times)

    def note(self, *words):
        self.lines.write((" ".join(map(str, words)) + "\n").encode())

    def join(self):
        self.note("join", time.monotonic())

    def batches(self):
        generator = torch.Generator().manual_seed(PLACE)
        while True:
            yield from DataLoader(
                self.data, self.batch, shuffle=True, generator=generator, drop_last=True
            )

    def step(self, model, optimizer, batch, share=lambda: None):
        """The time to get the batch is the step's."""
        began = self.free or time.monotonic()
        pixels, labels = batch
        optimizer.zero_grad()
        functional.cross_entropy(model(pixels), labels).backward()
        wait_s = began + self.step_s - self.optimizer_s - time.monotonic()
        time.sleep(max(0.0, wait_s))
        computed = time.monotonic()
        share()
        optimizer.step()
        self.free = time.monotonic()
        self.note("step", began, computed, self.free)

    def done(self, taken, state):
        self.note("done", time.monotonic(), taken)
        model = self.make_model()
        model.load_state_dict(state)
        pixels, labels = self.held_out.tensors
        with torch.no_grad():
            self.note("loss", functional.cross_entropy(model(pixels), labels).item())


def ddp(part, checkpoint=None):
    """DistributedDataParallel with Gloo; with a checkpoint it goes on from the last one."""
    part.join()
    distributed.init_process_group("gloo")
    world, taken = distributed.get_world_size(), 0
    if checkpoint and os.path.exists(checkpoint):
        saved = torch.load(checkpoint)
        taken = saved["taken"]
        part.model.load_state_dict(saved["model"])
        part.optimizer.load_state_dict(saved["optimizer"])
    model = nn.parallel.DistributedDataParallel(part.model)
    batches = part.batches()
    while taken < JOB["steps"]:
        part.step(model, part.optimizer, next(batches))
        before, taken = taken, taken + world
        due = taken // JOB["checkpoint_steps"] > before // JOB["checkpoint_steps"]
        if checkpoint and due and distributed.get_rank() == 0:
            saved = {"model": part.model.state_dict(), "optimizer": part.optimizer.state_dict()}
            torch.save({**saved, "taken": taken}, checkpoint + ".part")
            os.replace(checkpoint + ".part", checkpoint)
    part.done(taken, part.model.state_dict())


def elastic(part):
    ddp(part, os.path.join(FOLDER, "checkpoint.pt"))


def manager_of(part, **more):
    """torchft's, of a replica group of one process."""
    from torchft import Manager, ProcessGroupGloo

    def load(state):
        part.model.load_state_dict(state["model"])
        part.optimizer.load_state_dict(state["optimizer"])

    def state():
        return {"model": part.model.state_dict(), "optimizer": part.optimizer.state_dict()}

    part.store = store = distributed.TCPStore(HOST, 0, is_master=True, wait_for_workers=False)
    return Manager(
        pg=ProcessGroupGloo(), load_state_dict=load, state_dict=state, min_replica_size=1,
        replica_id=f"replica_{PLACE}", rank=0, world_size=1, store_addr=HOST,
        store_port=store.port, lighthouse_addr=JOB["lighthouse"], hostname=HOST, **more,
    )


def torchft(part):
    """Its own wrapper of DDP ends with an assertion when a neighbour dies, so gradients are
    averaged by hand."""
    from torchft import Optimizer

    part.join()
    manager = manager_of(part)
    optimizer, batches = Optimizer(manager, part.optimizer), part.batches()
    parameters = list(part.model.parameters())

    def share():
        flat = torch.cat([p.grad.flatten() for p in parameters])
        manager.allreduce(flat).wait()
        for p, mean in zip(parameters, flat.split([p.numel() for p in parameters])):
            p.grad.copy_(mean.view_as(p))

    while manager.batches_committed() < JOB["steps"]:
        part.step(part.model, optimizer, next(batches), share)
    part.done(manager.batches_committed(), part.model.state_dict())
    os._exit(0)  # whatever waits for the others at an orderly end is not what is measured


def grapevine(part):
    """The five lines."""
    import grapevine as package

    part.join()
    rank = package.join(part.model, part.optimizer)
    sampler = rank.sampler(part.data, epochs=JOB["steps"] * BATCH / len(part.data))
    for batch in DataLoader(part.data, BATCH, sampler=sampler):
        part.step(part.model, part.optimizer, batch)
    mean = rank.finish()
    part.done(rank.run_steps, mean)
    part.note("exchanges", rank.exchanges)
    rank.close()


if __name__ == "__main__":
    kinds = {"ddp": ddp, "elastic": elastic, "torchft": torchft, "grapevine": grapevine}
    kinds[sys.argv[1]](Part())
