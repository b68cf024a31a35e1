"""What others put around a model: torch.compile, DistributedDataParallel, trainer frameworks."""

import os
import shutil
import unittest

import torch
import torch.distributed as distributed
import torch.multiprocessing as processes
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import grapevine
from networks import IMAGES, LABELS, sgd
from node import Node


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))


def losses(model, optimizer, steps=5):
    said = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(IMAGES), LABELS)
        loss.backward()
        optimizer.step()
        said.append(loss.item())
    return said


@unittest.skipUnless(shutil.which("g++"), "torch.compile needs a compiler")
class Compiled(unittest.TestCase):
    def setUp(self):
        self.node = Node()
        self.addCleanup(self.node.close)
        self.addCleanup(torch._dynamo.reset)

    def trained(self, order):
        """The losses, and how many graphs were compiled on the way."""
        torch._dynamo.reset()
        model = small()
        optimizer = sgd(model)
        rank = None
        if order == "join, compile":
            rank = grapevine.join(model, optimizer, self.node.path)
        compiled = torch.compile(model)
        if order == "compile, run, join":
            functional.cross_entropy(compiled(IMAGES), LABELS).backward()
            rank = grapevine.join(model, optimizer, self.node.path)
        if order == "join compiled":
            rank = grapevine.join(compiled, optimizer, self.node.path)
            self.assertEqual(rank.names[0], "1.weight")
        before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        said = losses(compiled, optimizer)
        graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"] - before
        if rank:
            self.assertEqual(rank.steps, 5)
            rank.close()
            self.node.kill()
            self.node.start()
        return said, graphs

    def test_a_compiled_model_has_the_same_losses_and_no_graph_more(self):
        bare, graphs = self.trained("bare")
        for order in ("join, compile", "compile, run, join", "join compiled"):
            with self.subTest(order=order):
                said, own = self.trained(order)
                self.assertEqual(said, bare)
                self.assertLessEqual(own, graphs)

    def test_a_compiled_optimizer_step_makes_its_STEP(self):
        model = small()
        optimizer = sgd(model)
        with grapevine.join(model, optimizer, self.node.path) as rank:
            compiled = torch.compile(lambda: optimizer.step())
            for _ in range(3):
                optimizer.zero_grad()
                functional.cross_entropy(model(IMAGES), LABELS).backward()
                compiled()
            self.assertEqual(rank.steps, 3)


def one_of_two(place, path, folder, joins, queue):
    """A process of a group of two; the first is the guest, and gives the others its parameters."""
    torch.set_num_threads(1)
    group = f"file://{folder}/group-{joins}"
    distributed.init_process_group("gloo", rank=place, world_size=2, init_method=group)
    model = small()
    parallel = DistributedDataParallel(model)
    optimizer = sgd(parallel)
    rank = grapevine.join(parallel, optimizer, path) if joins and place == 0 else None

    def share(*_):
        for parameter in model.parameters():
            distributed.broadcast(parameter.detach(), 0)

    if joins:
        optimizer.register_step_post_hook(share)
        share()
    half = slice(32 * place, 32 * place + 32)
    said = []
    for _ in range(6):
        optimizer.zero_grad()
        loss = functional.cross_entropy(parallel(IMAGES[half]), LABELS[half])
        loss.backward()
        optimizer.step()
        said.append(loss.item())
    queue.put((place, said, [p.detach().tolist() for p in model.parameters()], rank and rank.steps))
    if rank:
        assert rank.names[0] == "1.weight"
        rank.close()
    distributed.barrier()
    distributed.destroy_process_group()


class Parallel(unittest.TestCase):
    def group(self, node, joins):
        context = processes.get_context("spawn")
        queue = context.SimpleQueue()
        arguments = (node.path, node.folder, joins, queue)
        started = processes.spawn(one_of_two, arguments, nprocs=2, join=False)
        said = sorted([queue.get(), queue.get()])
        while not started.join():
            pass
        return said

    def test_DDP_within_a_guest_has_the_losses_of_bare_DDP(self):
        with Node() as node:
            bare, own = self.group(node, False), self.group(node, True)
        self.assertEqual(own[0][3], 6)
        for (_, said, parameters, _), (_, others, also, _) in zip(bare, own):
            self.assertEqual(said, others)
            self.assertEqual(parameters, also)
        self.assertEqual(own[0][2], own[1][2])


if __name__ == "__main__":
    unittest.main()
