"""A rank's share of a data set."""

from __future__ import annotations

from typing import Iterator, Protocol

import torch


class Place(Protocol):
    """What a sampler has to know of a rank, as it is now."""

    @property
    def rank(self) -> int: ...
    @property
    def ranks(self) -> int: ...
    @property
    def stopped(self) -> bool: ...


class Sampler(torch.utils.data.Sampler[int]):
    """A rank's share of a data set, in another order each pass, keyed by (seed, rank, pass).

    The shares of all ranks are disjoint and cover the data. A pass ends early when the run has
    ended.
    """

    def __init__(self, rank: Place, size: int, seed: int = 0) -> None:
        self.rank = rank
        self.size = size
        self.seed = seed
        self.passes = 0

    def __len__(self) -> int:
        return len(range(self._first(), self.size, max(1, self.rank.ranks)))

    def __iter__(self) -> Iterator[int]:
        everybody = torch.Generator().manual_seed(self.seed)
        share = torch.randperm(self.size, generator=everybody)[self._first() :: self.rank.ranks]
        key = (self.seed * 1000003 + self.rank.rank) * 1000003 + self.passes
        self.passes += 1
        order = torch.randperm(len(share), generator=torch.Generator().manual_seed(key % 2**63))
        for at in order.tolist():
            if self.rank.stopped:
                return
            yield int(share[at])

    def _first(self) -> int:
        return self.rank.rank % max(1, self.rank.ranks)
