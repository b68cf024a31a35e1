"""The means that a node gives: that of now, and that of the run, for which a script waits."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Callable, Optional, Tuple

from .layout import Layout
from .means import Mean
from .seat import Seat
from .wire import ANY_RANK, Connection, Flag, Kind, Overdue, Record, Refused

_ADVICE = (
    "in a run with a number of steps scripts do not wait for each other: use launch --gradients N "
    "or join(..., gradients=N), and rank.sampler(data) for one loop"
)


class RunMeans:
    """The means of all ranks. Once the run has ended they are all `last`, the mean of the run.

    Its node leaves as soon as its scripts have that mean. So the seat ends with it, or with the
    reason why there is none. The caller holds the lock of the seat.
    """

    def __init__(self, seat: Seat, layout: Layout) -> None:
        self.last: Optional[Mean] = None
        self._seat, self._layout = seat, layout

    def now(self) -> Mean:
        return self.last if self.last is not None else self._ask(Kind.MEAN)

    def finish(self, deadline: Optional[float]) -> Mean:
        """Waits for the end of the run; after the deadline, or at Ctrl+C, it is the mean of now."""
        if self.last is None:
            self._seat.wait_for_node()
            try:
                self.take_last(deadline)
            except (KeyboardInterrupt, Overdue):
                if self.last is None:
                    self._seat.sit_again()
        return self.now()

    def take_last(self, deadline: Optional[float] = None) -> None:
        """Waits for the mean of the run. Raises Refused if there is none, and Overdue."""
        over = ""
        try:
            self.last = self._ask(Kind.FINISH, deadline, _Waits(self._seat))
        except Refused as refused:
            over = str(refused)
            raise
        finally:
            if self.last is not None or over:
                self._seat.end(over or "the run is over, and its node has left")

    def _ask(
        self,
        kind: Kind,
        deadline: Optional[float] = None,
        on_wait: Callable[[Record], None] = lambda _: None,
    ) -> Mean:
        self._seat.check("the mean")
        answer = self._seat.call(
            lambda node: node.ask(Record(kind=kind), deadline=deadline, on_wait=on_wait)
        )
        descriptor = self._seat.call(Connection.take_descriptor)
        try:
            return Mean(self._layout, descriptor, answer.ranks)
        finally:
            os.close(descriptor)


class _Waits:
    """Says after a second for which rank `finish` waits, and again when that changes. It is a
    warning if that rank has no script: perhaps none will come."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._said: Optional[Tuple[int, bool]] = None
        self._advises = not seat.gradients

    def __call__(self, wait: Record) -> None:
        empty = bool(wait.flags & Flag.EMPTY)
        if (wait.rank, empty) == self._said or not wait.ranks:
            return
        self._said = (wait.rank, empty)
        whom = "other nodes"
        if wait.rank != ANY_RANK:
            more = " and %d more" % (wait.ranks - 1) if wait.ranks > 1 else ""
            whom = "rank %d%s" % (wait.rank, more)
        line = "rank %d has finished and waits for %s" % (self._seat.rank, whom)
        if empty:
            warnings.warn(line + ", which has no script", stacklevel=8)  # at Rank.finish
        else:
            print("grapevine: " + line, file=sys.stderr, flush=True)
        if self._advises:
            self._advises = False
            print("grapevine: " + _ADVICE, file=sys.stderr, flush=True)
