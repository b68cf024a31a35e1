"""A rank for a training loop of another library."""

from __future__ import annotations

import os
import warnings
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

from .joining import join
from .rank import Rank
from .sampler import Sampler


class Loop:
    """The common part of the classes for trainer libraries.

    save     a file for the mean of all ranks at the end; `mean` has it in any case
    shard    a rank with others trains on its share of the data; False: on all data, as the loader
             draws it
    options  those of `join`
    """

    def __init__(
        self,
        save: Union[str, os.PathLike[str], None] = None,
        shard: bool = True,
        **options: Any,
    ) -> None:
        self.rank: Optional[Rank] = None
        self.mean: Optional[Dict[str, Any]] = None
        self._save, self._shard, self._options = save, shard, options
        self._shared: List[Tuple[BatchSampler, Any]] = []

    def begin(self, model: torch.nn.Module, optimizers: List[torch.optim.Optimizer]) -> Rank:
        """Joins; a STEP follows each step of the last optimizer."""
        also = [*optimizers[:-1], *self._options.get("also", ())]
        self.rank = join(model, optimizers[-1], **{**self._options, "also": also})
        return self.rank

    def share(self, loader: Any) -> None:
        """The loader draws this rank's share until `leave`."""
        if self.rank is None or not self._shard or not isinstance(loader, DataLoader):
            return
        batches = loader.batch_sampler
        drawn = getattr(batches, "sampler", None)
        if not isinstance(batches, BatchSampler) or not isinstance(
            drawn, (RandomSampler, SequentialSampler)
        ):
            warnings.warn(
                "the loader has its own %s: with it each rank draws from all of the data"
                % type(drawn).__name__,
                stacklevel=3,
            )
            return
        batches.sampler = _Share(self.rank, drawn, len(loader.dataset))  # type: ignore[arg-type]
        self._shared.append((batches, drawn))

    def figures(self) -> Dict[str, float]:
        """Figures of the run, for a logger."""
        rank = self.rank
        if rank is None:
            return {}
        told = {"ranks": rank.ranks, "steps": rank.run_steps, "exchanges": rank.exchanges}
        return {"grapevine/" + name: float(value) for name, value in told.items()}

    @property
    def stopped(self) -> bool:
        """The run takes no more steps."""
        return self.rank is not None and self.rank.stopped

    def finish(self) -> Optional[Dict[str, Any]]:
        """Waits for the other ranks and returns the mean; also saves it if a file was named."""
        if self.rank is not None:
            finish = self.rank.finish if self._save is None else self._finish_into_file
            self.mean = finish()
            self.leave()
        return self.mean

    def leave(self) -> None:
        """The rank is left, and loaders draw as before."""
        for batches, drawn in self._shared:
            batches.sampler = drawn
        self._shared.clear()
        if self.rank is not None:
            self.rank.close()

    def _finish_into_file(self) -> Dict[str, Any]:
        assert self.rank is not None and self._save is not None
        return self.rank.save_mean(self._save)


class _Share(torch.utils.data.Sampler[int]):
    """This rank's share; if the run has one rank, what the loader would have drawn."""

    def __init__(self, rank: Rank, alone: Any, size: int) -> None:
        self._rank, self._alone = rank, alone
        self._mine: Sampler = rank.sampler(range(size), partition=True)

    def _drawn(self) -> Any:
        return self._alone if self._rank.ranks == 1 else self._mine

    def __len__(self) -> int:
        return len(self._drawn())

    def __iter__(self) -> Iterator[int]:
        for index in self._drawn():
            if self._rank.stopped:
                return
            yield index
