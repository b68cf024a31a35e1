"""Small models and training loops of which the tests with torch are made."""

import os
import signal
import threading

import torch
from torch import nn
from torch.nn import functional

import grapevine
from node import Node, until

torch.set_num_threads(1)
IMAGES = torch.randn(64, 1, 28, 28, generator=torch.Generator().manual_seed(1))
LABELS = torch.randint(10, (64,), generator=torch.Generator().manual_seed(2))


def network():
    """Convolution, batch norm, a linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 26 * 26, 10)
    )


def linear():
    return nn.Linear(1000, 10)


def sgd(model, lr=0.05, **options):
    return torch.optim.SGD(model.parameters(), lr, momentum=0.9, **options)


def step(model, optimizer):
    """One step of a linear model on noise."""
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(torch.randn(8, 1000)), torch.zeros(8, dtype=torch.long))
    loss.backward()
    optimizer.step()


def train(model, optimizer, steps=8, *, schedule=None, scaler=None, autocast=None, clip=None,
          accumulate=1, set_to_none=True, seed=0):
    """The usual loop; the losses."""
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=set_to_none)
        for _ in range(accumulate):
            batch = torch.randint(64, (16,), generator=generator)
            with torch.autocast("cpu", dtype=autocast or torch.bfloat16, enabled=bool(autocast)):
                loss = functional.cross_entropy(model(IMAGES[batch]), LABELS[batch])
            (scaler.scale(loss) if scaler else loss).backward()
        if scaler and clip:
            scaler.unscale_(optimizer)
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        if schedule:
            schedule.step()
        losses.append(loss.item())
    return losses


def join_when_free(model, optimizer, node):
    """Joins as soon as a seat is free: whose script has gone, the node hears a moment later."""

    def joined():
        try:
            return grapevine.join(model, optimizer, node.path)
        except grapevine.Refused as refused:
            if "no seat is free" not in str(refused):
                raise
            return None

    return until("a free seat", joined)


def interrupt_the_next_wait(rank):
    """Ctrl+C, a moment after the rank's next question has left; the timer, to be joined."""
    node = rank._seat.node
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))

    def send(*question):
        del node.send  # of this connection: those that follow leave as ever
        node.send(*question)
        timer.start()

    node.send = send
    return timer


def values(model):
    """All parameters and buffers, copied."""
    return [t.detach().clone() for t in (*model.parameters(), *model.buffers())]


def equal(one, other):
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other))


def alone_is_bare(make_model, make_optimizer, run):
    """Runs `run(model, optimizer)` bare, and joined to a node with nobody to gossip with.

    Whether what it returns, and the model, are the same to the bit; and the STEPs that were made.
    """
    outcomes = []
    steps = 0
    with Node() as node:
        for joined in (False, True):
            torch.manual_seed(3)
            model = make_model()
            optimizer = make_optimizer(model)
            rank = grapevine.join(model, optimizer, node.path) if joined else None
            said = run(model, optimizer)
            if rank:
                steps = rank.steps
                rank.close()
            outcomes.append((said, values(model)))
    (said, bare), (also, own) = outcomes
    return said == also and equal(bare, own), steps
