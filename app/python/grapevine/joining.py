"""`join`: how a script comes to a rank, and the mistakes that are easily made there."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
from typing import Optional, Sequence, Tuple, Union

import torch

from .rank import Rank, open_ranks
from .wire import Refused, door_of


def join(
    model: torch.nn.Module,
    optimizer: Optional[torch.optim.Optimizer],
    node: Union[str, os.PathLike[str], None] = None,
    rank: Optional[int] = None,
    every: int = 1,
    also: Sequence[torch.optim.Optimizer] = (),
    alone: float = 60.0,
    run: str = "",
    gradients: Optional[int] = None,
    outer: Optional[Tuple[float, float]] = None,
) -> Rank:
    """Joins the run of a node: from now on the rank's parameters are `model`'s.

    What the optimizers step is joined. A rank that has parameters already (a run that goes on, a
    rank whose script died) gives them to `model`; a new run begins with `model`'s. A model that is
    joined already leaves its first rank.

    model      any module that is not sharded; fp32, bf16 or fp16, on any device
    optimizer  its `step` is followed by a STEP of the rank; None: the script calls `rank.step()`
    node       the path of the node's door, or its name; None: `$GRAPEVINE_NODE`
    rank       the wanted rank; None: any that is free
    every      optimizer steps a STEP
    also       other optimizers of the model, stepped before `optimizer` (two optimizers of a GAN)
    alone      for how many seconds the script trains on alone when the node is gone
    run        the name of the run that is meant; "": the node's own
    gradients  optimizer steps that all ranks together take: the work of the run, which the first
               script may say where nobody has. Another number than the run has is `Refused`
    outer      (learning rate, momentum): what `every` steps have done is a gradient for SGD with
               Nesterov's momentum, whose step is the rank's; None: it is the rank's step itself

    Raises ValueError for what cannot be joined, `Refused` with the node's reason, `NodeGone`.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(
            "grapevine: a worker process imports this script and would join too: "
            'put the training under `if __name__ == "__main__":`'
        )
    _refuse_mistakes(model, optimizer, also, every, alone, gradients)
    outer = _outer_of(outer)
    seat = None
    if node is None and rank is None and os.environ.get("GRAPEVINE_SEAT", "").isdigit():
        seat = int(os.environ["GRAPEVINE_SEAT"])
    called = os.fspath(node) if node is not None else os.environ.get("GRAPEVINE_NODE")
    if not called:
        raise ValueError("no node: give node=PATH or set GRAPEVINE_NODE")
    path = door_of(called)
    first = [_innermost(optimizer)] if optimizer is not None else []
    others = [_innermost(o) for o in also]
    wanted = _leave_first_rank(model, path)
    if rank is None:
        rank = wanted
    try:
        return Rank(
            model, first, others, path, rank, seat, every, alone, run, gradients or 0, outer
        )
    except Refused as refused:
        mine = [str(other.rank) for other in open_ranks() if other._path == path]
        if not mine or "seat is free" not in str(refused):
            raise
        already = "%s; this script has rank %s and may close it" % (refused, ", ".join(mine))
        raise Refused(already) from None


def _refuse_mistakes(
    model: object,
    optimizer: object,
    also: object,
    every: object,
    alone: object,
    gradients: object,
) -> None:
    """In one line each what is easily given for something else."""
    if not isinstance(model, torch.nn.Module):
        raise ValueError(
            "model is a %s, accepted: the torch.nn.Module, not its parameters"
            % type(model).__name__
        )
    if isinstance(optimizer, (list, tuple)):
        raise ValueError(
            "optimizer is a %s, accepted: the one that steps last; the others go to also=[..]"
            % type(optimizer).__name__
        )
    if not isinstance(also, (list, tuple)):
        raise ValueError("also is a %s, accepted: a list of optimizers" % type(also).__name__)
    for one in also if optimizer is None else (optimizer, *also):
        if not isinstance(one, torch.optim.Optimizer):
            raise ValueError(
                "optimizer is a %s, accepted: a torch.optim.Optimizer, or None and rank.step()"
                % type(one).__name__
            )
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise ValueError("every is %s, accepted: 1 or more optimizer steps a STEP" % (every,))
    if not isinstance(alone, (int, float)) or not alone >= 0:
        raise ValueError("alone is %s, accepted: 0 or more seconds" % (alone,))
    if gradients is not None and not (
        isinstance(gradients, int) and not isinstance(gradients, bool) and 0 < gradients <= 2**53
    ):
        raise ValueError(
            "gradients is %s, accepted: 1 to 2**53 optimizer steps of all ranks" % (gradients,)
        )


def _outer_of(outer: object) -> Optional[Tuple[float, float]]:
    """The rate and the momentum, as the node takes them."""
    if outer is None:
        return None
    if isinstance(outer, (tuple, list)) and len(outer) == 2:
        with contextlib.suppress(TypeError, ValueError):
            rate, momentum = float(outer[0]), float(outer[1])
            if 0 < rate < math.inf and 0 <= momentum < 1:
                return rate, momentum
    raise ValueError(
        "outer is %s, accepted: None, or (a rate above 0, a momentum from 0 to below 1)" % (outer,)
    )


def _leave_first_rank(model: torch.nn.Module, path: str) -> Optional[int]:
    """A model is one rank's: an earlier one is closed, and its number is wanted again."""
    parameters = {id(parameter) for parameter in model.parameters()}
    wanted = None
    for rank in open_ranks():
        if rank._pid == os.getpid() and any(id(t) in parameters for t in rank._trained):
            rank._tell("its model joins again, and leaves it")
            wanted = rank.rank if rank._path == path and not rank.alone else None
            rank.close()
    return wanted


def _innermost(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer within what a trainer framework has wrapped around it."""
    within = getattr(optimizer, "optimizer", None)
    while isinstance(within, torch.optim.Optimizer) and within is not optimizer:
        optimizer, within = within, getattr(within, "optimizer", None)
    return optimizer
