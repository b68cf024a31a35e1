"""`join`: connects a script to a rank, and checks for common mistakes."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
from typing import Optional, Sequence, Tuple, Union

import torch

from .given import real, whole
from .rank import Rank, leave_first_rank, ranks_at
from .seat import JoinOptions
from .wire import ANY_RANK, Refused, socket_of


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

    Joins the parameters of the optimizers. A rank that has parameters already (in a resumed run, or
    after another script) gives them to `model`; a new run starts with those of `model`. A model
    that has joined before leaves its first rank.

    model      any module that is not sharded; fp32, bf16 or fp16, on any device
    optimizer  a STEP of the rank follows each `step` of it; None: the script calls `rank.step()`
    node       the path of the node's socket, or its name; None: `$GRAPEVINE_NODE`
    rank       the wanted rank; None: any free rank
    every      optimizer steps per STEP
    also       other optimizers of the model, stepped before `optimizer` (two optimizers of a GAN)
    alone      for how many seconds the script trains alone when the node is gone
    run        the name of the run; "": that of the node
    gradients  optimizer steps of all ranks together: the work of the run. The first script may set
               it if the run has no number; if the run has another number, `Refused` is raised
    outer      (learning rate, momentum): the sum of `every` steps is a gradient for SGD with
               Nesterov momentum, whose step is the rank's; None: the sum is the rank's step

    Raises ValueError for a model that cannot join, `Refused` with the node's reason, `NodeGone`.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(
            "grapevine: a worker process imports this script and would join too: "
            'put the training under `if __name__ == "__main__":`'
        )
    _refuse_mistakes(model, optimizer, also)
    each, work, place = _numbers_of(every, gradients, rank)
    if real(alone) is None or alone < 0:
        raise ValueError("alone is %s, accepted: 0 or more seconds" % (alone,))
    if not isinstance(run, str) or not run.isprintable():
        raise ValueError("run is %r, accepted: the name of a run" % (run,))
    outer = _outer_of(outer)
    seat = None
    if node is None and place is None and os.environ.get("GRAPEVINE_SEAT", "").isdecimal():
        seat = int(os.environ["GRAPEVINE_SEAT"])
    path = socket_of(_called(node if node is not None else os.environ.get("GRAPEVINE_NODE", "")))
    first = [_innermost(optimizer)] if optimizer is not None else []
    others = [_innermost(o) for o in also]
    wanted = leave_first_rank(model, path)
    if place is None:
        place = wanted
    options = JoinOptions(path, place, seat, run, work, outer, float(alone))
    try:
        return Rank(model, first, others, each, options)
    except Refused as refused:
        mine = [str(other.rank) for other in ranks_at(path)]
        if not mine or "seat is free" not in str(refused):
            raise
        already = "%s; this script has rank %s and may close it" % (refused, ", ".join(mine))
        raise Refused(already) from None


def _called(node: object) -> str:
    """The name or the path that was given for a node."""
    try:
        called = os.fsdecode(node)  # type: ignore[arg-type]  # TypeError for what is no path
        os.fsencode(called)
    except (TypeError, UnicodeError):
        called = "\0"
    if "\0" in called:
        raise ValueError(
            "node is %.60r, accepted: the path of a node's socket, or the name of a node here"
            % (node,)
        )
    if not called:
        raise ValueError("node is not given, accepted: node=PATH, or $GRAPEVINE_NODE")
    return called


def _refuse_mistakes(model: object, optimizer: object, also: object) -> None:
    """Raises ValueError, with one line, for arguments that are easily confused."""
    if not isinstance(model, torch.nn.Module):
        raise ValueError(
            "model is a %s, accepted: the torch.nn.Module, not its parameters"
            % type(model).__name__
        )
    if isinstance(optimizer, (list, tuple)):
        raise ValueError(
            "optimizer is a %s, accepted: the optimizer that steps last, the others as also=[..]"
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


def _numbers_of(every: object, gradients: object, rank: object) -> Tuple[int, int, Optional[int]]:
    """The optimizer steps of a STEP, those of all ranks (0: not said), and the wanted rank."""
    each, work, place = whole(every, 1), whole(gradients, 1), whole(rank, 0, ANY_RANK - 1)
    if each is None:
        raise ValueError("every is %s, accepted: 1 or more optimizer steps per STEP" % (every,))
    if gradients is not None and work is None:
        raise ValueError(
            "gradients is %s, accepted: 1 to 2**53 optimizer steps of all ranks" % (gradients,)
        )
    if rank is not None and place is None:
        raise ValueError("rank is %r, accepted: None, or the number of a rank" % (rank,))
    return each, work or 0, place


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


def _innermost(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer within what a trainer framework has wrapped around it."""
    within = getattr(optimizer, "optimizer", None)
    while isinstance(within, torch.optim.Optimizer) and within is not optimizer:
        optimizer, within = within, getattr(within, "optimizer", None)
    return optimizer
