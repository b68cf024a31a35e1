"""A rank's share of a data set."""

from __future__ import annotations

import warnings
import zlib
from typing import Any, Dict, Iterator, NamedTuple, Optional, Protocol

import torch


class Place(Protocol):
    """What a sampler has to know of a rank, as it is now."""

    @property
    def rank(self) -> int: ...
    @property
    def ranks(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def stopped(self) -> bool: ...


class Share(NamedTuple):
    """How far a rank is in its share, as its node knows it from the rank's last STEP."""

    key: int = 0  # of data, seed and number of ranks; 0: it has none
    passes: int = 0  # that lie behind it
    samples: int = 0  # of this pass, on which it has been trained


class Sampler(torch.utils.data.Sampler[int]):
    """A rank's share of a data set, in another order each pass, keyed by (seed, rank, pass).

    The shares of all ranks are disjoint and cover the data. A pass ends early when the run has
    ended. The sampler of a script that takes a rank over goes on `at` where the last one was.
    """

    def __init__(
        self, rank: Place, size: int, seed: int = 0, at: Optional[Share] = None
    ) -> None:
        self.rank = rank
        self.size = size
        self.seed = seed
        self.passes = 0  # the number of the pass that begins next
        self._samples = 0  # of it, that are left out
        self._goes_on = at is not None and at.key == self._key() and at[1:] != (0, 0)
        if self._goes_on and at is not None:
            self._go_on(at.passes, at.samples)
        self._shift = 0  # between what the script calls an epoch, and the pass
        self._pass = -1  # the one that goes on
        self._begin = self._drawn = self._end = 0  # of its samples
        self._told = self._made = self._each = 0  # drawn at the last STEP, STEPs, samples a STEP
        self._steps_before: Optional[int] = None  # of the rank, as the last pass began
        if len(self) == 0:
            warnings.warn(
                "rank %d has no samples: %d for %d ranks" % (rank.rank, size, rank.ranks),
                stacklevel=3,
            )

    def __len__(self) -> int:
        return len(range(self._first(), self.size, max(1, self.rank.ranks)))

    def __iter__(self) -> Iterator[int]:
        self._look_for_steps()
        everybody = torch.Generator().manual_seed(self.seed)
        share = torch.randperm(self.size, generator=everybody)[self._first() :: self.rank.ranks]
        self._pass, self.passes = self.passes, self.passes + 1
        self._begin, self._samples = min(self._samples, len(share)), 0
        self._drawn = self._told = self._begin
        self._end, self._made = len(share), 0
        self._goes_on = False
        mine = self._pass
        key = (self.seed * 1000003 + self.rank.rank) * 1000003 + mine
        order = torch.randperm(len(share), generator=torch.Generator().manual_seed(key % 2**63))
        for at, place in enumerate(order[self._begin :].tolist(), self._begin):
            if self.rank.stopped:
                return
            if mine == self._pass:
                self._drawn = at + 1
            yield int(share[place])

    def set_epoch(self, epoch: int) -> None:
        """The next pass is number `epoch`, as with a DistributedSampler.

        Where a script begins again from epoch 0 and its share goes on, it counts from there: no
        order comes twice.
        """
        if self._goes_on:
            self._shift = max(0, self.passes - epoch)
        if epoch + self._shift != self.passes:
            self.passes, self._samples = epoch + self._shift, 0
        self._goes_on = False
        self._pass = -1

    def state_dict(self) -> Dict[str, Any]:
        """Where the share is: after the last sample that was drawn."""
        passes, samples = self.passes, self._samples
        if self._pass >= 0 and self._drawn < self._end:
            passes, samples = self._pass, self._drawn
        return {"passes": passes, "samples": samples, "size": self.size, "seed": self.seed}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next pass goes on there. Raises ValueError for a state of other data."""
        if (state["size"], state["seed"]) != (self.size, self.seed):
            raise ValueError(
                "the state is of %s samples with seed %s, accepted: of %d with %d"
                % (state["size"], state["seed"], self.size, self.seed)
            )
        self._go_on(state["passes"], state["samples"])
        self._pass, self._goes_on = -1, True

    def share(self) -> Share:
        """Where the share is as a STEP is made.

        A loader draws ahead of what is trained on. So a sample counts by the STEPs of this pass,
        each of as many samples as one drew.
        """
        if self._pass < 0:
            return Share(self._key(), self.passes, self._samples)
        drawn, self._told = self._drawn - self._told, self._drawn
        if self._made:
            self._each = max(self._each, drawn)
        self._made += 1
        trained = self._begin + self._made * self._each if self._each else self._drawn
        return Share(self._key(), self._pass, min(self._drawn, trained))

    def _go_on(self, passes: int, samples: int) -> None:
        whole = samples >= len(self)
        self.passes, self._samples = (passes + 1, 0) if whole else (passes, samples)

    def _look_for_steps(self) -> None:
        before, self._steps_before = self._steps_before, self.rank.steps
        if before == self.rank.steps and self._drawn > self._begin and not self.rank.stopped:
            warnings.warn(
                "rank %d has made no STEP in a whole pass over its data: does something else than "
                "the joined optimizer step the model? Join that, or call rank.step()"
                % self.rank.rank,
                stacklevel=3,
            )

    def _first(self) -> int:
        return self.rank.rank % max(1, self.rank.ranks)

    def _key(self) -> int:
        return zlib.crc32(b"%d %d %d" % (self.size, self.seed, self.rank.ranks)) or 1
