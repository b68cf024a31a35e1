"""Trains with others: a PyTorch script joins a Grapevine run as one of its ranks.

    import grapevine

    rank = grapevine.join(model, optimizer, node="a")
    loader = DataLoader(data, 32, sampler=rank.sampler(data, epochs=3))
    ...                            # the training loop: for batch in loader
    rank.save_mean("model.pt")     # the mean of all ranks
    rank.close()

A STEP of the rank follows the optimizer's `step`: the node takes the script's changes, and returns
the rank's new parameters, averaged with those of other ranks meanwhile. No rank waits for another.

The functions `simulate`, `topology`, `compare` and `status` call the program `grapevine`, found by
`$GRAPEVINE`, in the wheel, then in `PATH`; they need no torch. `launch` starts a node and processes
that join it, from a notebook or a script. `lightning`, `hf` and `accelerate` have a class for each
of these libraries.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .program import Result, compare, simulate, status, topology
from .wire import NodeGone, Refused

if TYPE_CHECKING:
    from .joining import join
    from .launching import launch
    from .rank import Rank
    from .sampler import Sampler
    from .schedules import Schedule, schedule

__all__ = [
    "NodeGone",
    "Rank",
    "Refused",
    "Result",
    "Sampler",
    "Schedule",
    "compare",
    "join",
    "launch",
    "schedule",
    "simulate",
    "status",
    "topology",
]


def __getattr__(name: str) -> Any:
    """Imports what needs torch, or is rarely needed, at its first use."""
    if name == "join":
        from .joining import join

        return join
    if name == "launch":
        from .launching import launch

        return launch
    if name == "Rank":
        from .rank import Rank

        return Rank
    if name == "Sampler":
        from .sampler import Sampler

        return Sampler
    if name in ("Schedule", "schedule"):
        from . import schedules

        return getattr(schedules, name)
    if name in ("accelerate", "hf", "lightning"):  # for those who have these libraries
        return importlib.import_module("." + name, __name__)
    raise AttributeError("module 'grapevine' has no attribute %r" % name)
