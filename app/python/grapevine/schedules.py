"""`schedule`: a learning rate that follows the run and not this script's own steps."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List

import torch
from torch.optim.lr_scheduler import LRScheduler

from .rank import Rank


class Schedule(LRScheduler):
    """The initial learning rate of each group, times `factor` of the run's progress, 0 to 1.

    So all ranks have the same rate at a time. `step` reads the progress: call it after each step of
    the optimizer.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, rank: Rank, factor: Callable[[float], float]
    ) -> None:
        self.rank, self.factor = rank, factor
        super().__init__(optimizer)

    def get_lr(self) -> List[Any]:
        progress = self.rank.progress
        progress = 0.0 if math.isnan(progress) else progress  # until the first batches are counted
        factor = float(self.factor(progress))
        if not math.isfinite(factor):
            raise ValueError(
                "the factor of the learning rate at progress %g is %s, accepted: a finite number"
                % (progress, factor)
            )
        return [rate * factor for rate in self.base_lrs]

    def state_dict(self) -> Dict[str, Any]:
        """Without optimizer, rank and function: the next script has its own."""
        own = ("optimizer", "rank", "factor")
        return {name: value for name, value in self.__dict__.items() if name not in own}


def schedule(
    optimizer: torch.optim.Optimizer, rank: Rank, factor: Callable[[float], float]
) -> Schedule:
    """A learning rate scheduler of torch that follows the progress of the whole run.

    factor  of the initial learning rate, at a progress from 0 to 1; for instance
            lambda done: 0.5 * (1 + math.cos(math.pi * done))

    Raises ValueError if the run has no number of gradients and no sampler of the rank makes one.
    """
    if not callable(factor):
        raise ValueError(
            "factor is a %s, accepted: a function of the progress, 0 to 1" % type(factor).__name__
        )
    if math.isnan(rank.progress) and not rank.counts:
        raise ValueError(
            "no end of the run is known, so there is no progress, accepted: launch --gradients N, "
            "join(..., gradients=N), or rank.sampler(data, epochs=E) before the schedule"
        )
    return Schedule(optimizer, rank, factor)
