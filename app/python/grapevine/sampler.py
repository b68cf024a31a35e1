"""A rank's samples of a data set: its part of the work of the run, or its share of the data."""

from __future__ import annotations

import math
import warnings
import zlib
from typing import Any, Dict, Iterator, NamedTuple, Optional, Protocol

import torch

from .given import whole

_DRAWN_AHEAD = 1 << 17  # samples that a loader may draw before the first STEP


class Place(Protocol):
    """What a sampler reads of its rank."""

    @property
    def rank(self) -> int: ...
    @property
    def ranks(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def stopped(self) -> bool: ...


class Work(Protocol):
    """What a sampler that counts reads of the work of all ranks, in optimizer steps."""

    @property
    def run_steps(self) -> int: ...  # taken by all ranks: an estimate
    @property
    def counted(self) -> int: ...  # of run_steps, those since this rank's last STEP
    @property
    def gradients(self) -> int: ...  # the whole work; 0: not known yet
    def told(self, gradients: int = 0) -> int: ...  # known to be taken; tells the node the work


class Share(NamedTuple):
    """How far a rank is in its samples, as its node knows it from the rank's last STEP."""

    key: int = 0  # a hash of data size, seed and number of ranks; 0: there is no sampler
    passes: int = 0  # that are complete
    samples: int = 0  # of the present pass that the rank was trained on


class Sampler(torch.utils.data.Sampler[int]):
    """A rank's samples of a data set, in another order each pass, keyed by (seed, rank, pass).

    With `epochs`, or if the run has a number of gradients, one iteration is the whole training
    loop. It ends when the steps of all ranks, plus the samples that were drawn here and are in no
    step yet, complete the work of the run: `epochs` passes over the data by all ranks together, or
    the gradients. Otherwise an iteration is one pass, and the script counts.

    The shares of all ranks are disjoint and cover the data; without `partition` a rank uses all of
    the data. An iteration ends early when the run ends. The first sampler of a script that takes
    over a rank continues `at` the position of the last one.
    """

    def __init__(
        self,
        rank: Place,
        size: int,
        seed: int = 0,
        at: Optional[Share] = None,
        epochs: Optional[float] = None,
        partition: bool = True,
        work: Optional[Work] = None,
        every: int = 1,
        batch: Optional[int] = None,
    ) -> None:
        self.rank = rank
        self.size = size
        self.seed = seed
        self.epochs = epochs
        self.partition = partition
        self._work = work  # None: each rank counts its own samples
        # Whether an iteration is the whole loop.
        self.counts = epochs is not None or (work is not None and work.gradients > 0)
        self._every = every  # optimizer steps a STEP
        self.passes = 0  # the number of the pass that begins next
        self._samples = 0  # of that pass that are skipped
        self._goes_on = at is not None and at.key == self._key() and at[1:] != (0, 0)
        if self._goes_on and at is not None:
            self._go_on(at.passes, at.samples)
        self._shift = 0  # the number of a pass minus the script's epoch
        self._turn: Optional[object] = None  # the latest iteration; the next six are its own
        self._pass = 0  # its first pass: samples are counted from the start of that
        self._begin = self._drawn = self._length = 0  # first, next, samples of a pass
        self._told = self._made = 0  # samples drawn at the last STEP; STEPs
        self._batch = batch
        self._each = (batch or 0) * every  # samples a STEP; 0: not known yet
        self._look_at = 0.0  # with so many samples drawn, it looks whether they are enough
        self._steps_before: Optional[int] = None  # of the rank when the last iteration began
        if self._pass_length() == 0:
            warnings.warn(
                "rank %d has no samples: the data set has %d for %d ranks"
                % (rank.rank, size, rank.ranks),
                stacklevel=3,
            )
        self._count_work()

    def __len__(self) -> int:
        """The number of its samples that is expected: all ranks draw equally many."""
        work, ranks = self._work, max(1, self.rank.ranks)
        if work is not None and work.gradients and self._each:
            return math.ceil(work.gradients * self._each / self._every / ranks)
        if self.epochs is None:
            return self._pass_length()
        if self.partition and work is None:
            return math.ceil(self.epochs * self._pass_length())
        return math.ceil(self.epochs * self.size / ranks)

    def __iter__(self) -> Iterator[int]:
        self._look_for_steps()
        share = self._share()
        self._length = len(share)
        first = self._pass = self.passes
        self._begin = self._drawn = self._told = min(self._samples, self._length)
        self._samples = self._made = 0
        self._look_at = 0.0
        self._goes_on = False
        turn = self._turn = object()
        at = self._begin  # the next sample, counted from the start of the first pass
        while len(share):
            number = first + at // len(share)
            self.passes = number + 1
            order = self._order(number, len(share))
            for index in share[order][at % len(share) :].tolist():
                if self.rank.stopped or (at >= self._look_at and self._is_enough()):
                    return
                at += 1
                if turn is self._turn:
                    self._drawn = at
                yield index
            if not self.counts or turn is not self._turn:
                return

    def set_epoch(self, epoch: int) -> None:
        """The next pass is number `epoch`, as with a DistributedSampler.

        If this script continues the rank's last one and starts from epoch 0, its epochs are counted
        from the position of the last one: no order comes twice.
        """
        if whole(epoch, 0) is None:
            raise ValueError("epoch is %r, accepted: 0 or a larger whole number" % (epoch,))
        if self._goes_on:
            self._shift = max(0, self.passes - epoch)
        if epoch + self._shift != self.passes:
            self.passes, self._samples = epoch + self._shift, 0
        self._goes_on = False
        self._turn = None

    def state_dict(self) -> Dict[str, Any]:
        """The position after the last sample that was drawn."""
        passes, samples = self.passes, self._samples
        if self._turn is not None and self._length:
            whole, samples = divmod(self._drawn, self._length)
            passes = self._pass + whole
        return {"passes": passes, "samples": samples, "size": self.size, "seed": self.seed}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next pass starts at that position. Raises ValueError for a state of other data."""
        given = state if isinstance(state, dict) else {}
        passes, samples = (whole(given.get(name), 0) for name in ("passes", "samples"))
        if passes is None or samples is None:
            raise ValueError("the state is %.200r, accepted: that of a sampler" % (state,))
        size, seed = given.get("size"), given.get("seed")
        if (size, seed) != (self.size, self.seed):
            raise ValueError(
                "the state is of %s samples with seed %s, accepted: of %d with %d"
                % (size, seed, self.size, self.seed)
            )
        self._go_on(passes, samples)
        self._turn, self._goes_on = None, True

    def share(self) -> Share:
        """The position of the training, for a STEP to tell.

        A loader draws samples before they are trained on. So it is computed from the STEPs of this
        iteration, each with as many samples as were drawn between two of them.
        """
        if self._turn is None:
            return Share(self._key(), self.passes, self._samples)
        drawn, self._told = self._drawn - self._told, self._drawn
        if self._made and not self._batch:
            self._each = max(self._each, drawn)
        self._made += 1
        self._look_at = 0.0
        trained = self._trained()
        whole = max(0, trained - 1) // max(1, self._length)
        return Share(self._key(), self._pass + whole, trained - whole * self._length)

    # When the samples are enough.

    def look(self) -> None:
        """The rank knows more of the work that is done: the next sample finds out."""
        self._look_at = 0.0

    def _is_enough(self) -> bool:
        """Whether the steps of all ranks and the samples drawn here complete the work."""
        self._look_at = math.inf  # until the next STEP
        if not self.counts or self._turn is None:
            return False
        self._count_work()
        work = self._work
        if work is None:  # enough are all samples of its own part
            self._look_at = len(self) - self._pass * self._length
        elif self.epochs is not None and not (work.gradients and self._each):
            self._look_at = self._begin + self.epochs * self.size  # the whole work
        elif not self._each:  # no STEP yet: one pass, or what a loader may draw ahead
            self._look_at = self._told + max(self._length, _DRAWN_AHEAD)
        else:
            left = self._left(work.run_steps)
            # Near the end it asks the node: other ranks have taken steps since the last STEP, or
            # have died, and then `run_steps` was too high.
            if left <= self._each * self.rank.ranks:
                left = min(self._left(work.told()), self._each)
            self._look_at = self._drawn + left
        return self._drawn >= self._look_at

    def _left(self, taken: int) -> int:
        """How many more samples are drawn here if no other rank takes a step."""
        if self._work is None:
            return 0
        gradients = self._work.gradients - taken + self._work.counted
        ahead = self._drawn - self._trained()
        return math.ceil(gradients * self._each / self._every - ahead - 1e-6)

    def _count_work(self) -> None:
        """Tells the node the work in gradients, once the size of a batch is known."""
        if self._work is None or self.epochs is None or not self._each or self._work.gradients:
            return
        self._work.told(math.ceil(self.epochs * self.size * self._every / self._each))

    def _trained(self) -> int:
        if not self._each:
            return self._drawn
        return min(self._drawn, self._begin + self._made * self._each)

    # Which samples, and in which order.

    def _share(self) -> torch.Tensor:
        if not self.partition:
            return torch.arange(self.size)
        everybody = torch.Generator().manual_seed(self.seed)
        return torch.randperm(self.size, generator=everybody)[self._first() :: self.rank.ranks]

    def _pass_length(self) -> int:
        if not self.partition:
            return self.size
        return len(range(self._first(), self.size, max(1, self.rank.ranks)))

    def _order(self, number: int, length: int) -> torch.Tensor:
        key = (self.seed * 1000003 + self.rank.rank) * 1000003 + number
        return torch.randperm(length, generator=torch.Generator().manual_seed(key % 2**63))

    def _go_on(self, passes: int, samples: int) -> None:
        whole = samples >= self._pass_length()
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
        of = b"%d" % self.rank.ranks if self.partition else b"all"
        return zlib.crc32(b"%d %d %s" % (self.size, self.seed, of)) or 1
