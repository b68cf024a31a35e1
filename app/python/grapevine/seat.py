"""A script's place at a rank of a node: requests, the front, and finding a lost node again."""

from __future__ import annotations

import contextlib
import math
import threading
import time
import warnings
import weakref
from typing import Callable, NamedTuple, Optional, Tuple, TypeVar

from .front import Front
from .layout import Layout
from .sampler import Share
from .wire import ANY_RANK, Connection, Flag, Kind, NodeGone, Record, Refused

INTERRUPT_S = 2.0  # how long an interrupted STEP waits for its answer
SEAT_S = 2.0  # until a seat that was left is free again
DIAL_S = 2.0  # between two attempts to find the node again
_Result = TypeVar("_Result")


class JoinOptions(NamedTuple):
    """What a script asks for when it joins."""

    path: str  # of the node's socket
    rank: Optional[int]  # the wanted one; None: any
    seat: Optional[int]  # the wanted one if no rank is, counted from 0; None: any
    run: str
    gradients: int  # of the run; 0: as the run has them
    outer: Optional[Tuple[float, float]]
    alone: float  # seconds that the script trains without a node


class Seat:
    """The place of a script at a rank of a node, over all its connections.

    held   the node answers, and the model's tensors are the front's (views or copies)
    alone  the node is gone and the model has memory of its own; `dial` looks for the node
    left   for good: the model has memory of its own, and no question is asked any more

    A request is a `Kind`, and a `call` of `Connection.ask`, which raises without a node, or a
    `try_ask`. `rank` to `node_seconds` are the attributes of `Rank`. Threads take turns: hold
    `lock` around a request and what belongs to it. A seat does not refer to its `Rank`, which is
    freed with its last user.
    """

    def __init__(self, layout: Layout, options: JoinOptions) -> None:
        self.rank = self.ranks = self.steps = self.run_steps = self.exchanges = 0
        self.gradients = 0
        self.counted = 0  # optimizer steps since the last STEP that are in `run_steps`
        self.stopped = False
        self.node_seconds = 0.0
        self.loss = math.nan  # each STEP tells it, and where the sampler is:
        self.share: Callable[[], Share] = Share
        self.path = options.path
        self.lock = threading.RLock()
        self._layout = layout
        self._options = options
        self._lost_at: Optional[float] = None
        self._dial_at = 0.0
        self._left = False
        self._over = ""  # why there is nothing to ask since the run has ended
        self._enter(options.rank)

    @property
    def alone(self) -> bool:
        return self._lost_at is not None

    @property
    def is_held(self) -> bool:
        return not (self.alone or self._left)

    @property
    def is_over(self) -> bool:
        """Whether `end` was called."""
        return bool(self._over)

    # Requests.

    def step(self, taken: int) -> int:
        """STEP: hands over what `taken` optimizer steps have made of the model, and gives the model
        the rank's new parameters. Returns the flags of the answer. Raises NodeGone, and ValueError
        for tensors that are not as they were joined."""
        self._front.collect()
        try:
            flags = self._exchange(self.steps + 1, taken)
        except NodeGone as gone:
            self.lose(gone)
            raise
        self._front.invalidate_graphs()
        return flags

    def call(self, use: Callable[[Connection], _Result]) -> _Result:
        """`use` of the node's connection. If it raises NodeGone, the script is alone from then
        on."""
        try:
            return use(self.node)
        except NodeGone as gone:
            self.lose(gone)
            raise

    def try_ask(
        self, question: Record, text: bytes = b"", descriptor: Optional[int] = None
    ) -> Optional[Record]:
        """The answer, or None if the seat is not held, or is lost now."""
        if not self.is_held:
            return None
        try:
            return self.node.ask(question, text, descriptor)
        except NodeGone as gone:
            self.lose(gone)
            return None

    def check(self, what: str) -> None:
        """Raises NodeGone, with `what` the script asked for, if the seat is not held."""
        if not self.is_held:
            over = self._over or "the run is over, and its node has left"
            why = over if self.stopped else "the node is gone"
            raise NodeGone("%s of rank %d is not available: %s" % (what, self.rank, why))

    def ask_share(self, gradients: int = 0, taken: int = 0) -> Record:
        """How far the rank is in its data, and the run. `gradients`: the work of the run, if the
        data give it; `taken`: optimizer steps since the last STEP, for the pool. Raises NodeGone
        but stays held: the next STEP finds out by itself."""
        told = self.node.ask(Record(kind=Kind.SHARE, number=gradients, exchanges=taken))
        self.gradients = told.number
        return told

    def told(self, gradients: int = 0) -> int:
        """Optimizer steps that all ranks are known to have taken; if the node does not answer, the
        estimate of its last answer."""
        with self.lock, contextlib.suppress(NodeGone):
            if self.is_held:
                told = int(self.ask_share(gradients).value)
                self.run_steps = max(self.run_steps, told)
                return told
        return self.run_steps

    def count(self, taken: int) -> bool:
        """Tells the node of the optimizer steps since the last STEP. Whether the work of the run is
        done, so that a STEP is due. Raises as `ask_share` does."""
        told = self.ask_share(taken=taken)
        if not math.isnan(told.value):  # ranks share a pool
            self.counted, self.run_steps = taken, max(self.run_steps, int(told.value))
        return bool(told.flags & Flag.END)

    def has_moved(self) -> bool:
        """Whether parameters have changed since the last STEP. Raises as `ask_share` does."""
        return bool(self.ask_share().flags & Flag.MOVED) or self._front.has_moved()

    # Losing, finding and leaving the node.

    def lose(self, why: NodeGone) -> None:
        """The node is gone: the script trains alone from now on."""
        self._lost_at = time.monotonic()
        self._dial_at = self._lost_at + DIAL_S
        self._release()
        if self.stopped:
            return  # the run has ended, so its node has
        warnings.warn(
            "rank %d: the node is gone (%s); the script continues to train alone"
            % (self.rank, why),
            stacklevel=4,  # of this, its caller here, and the method of Rank: the script
        )

    def dial(self) -> None:
        """Looks for the lost node, once in a while. Raises NodeGone after the script's patience."""
        now = time.monotonic()
        if now < self._dial_at or self._lost_at is None or self.stopped:
            return
        self._dial_at = now + DIAL_S
        try:
            resumed = self._enter_again()
        except (NodeGone, Refused) as error:
            away = time.monotonic() - self._lost_at
            if away > self._options.alone:
                raise NodeGone("the node has been gone for %d s (%s)" % (away, error)) from None
            return
        self._lost_at = None
        self._front.invalidate_graphs()
        told = "its parameters; the script's own steps since are not in it"
        warnings.warn(
            "joined again as rank %d, with %s" % (self.rank, told if resumed else "the script's"),
            stacklevel=3,
        )

    def wait_for_node(self) -> None:
        """Waits for a lost node, for as long as the script has patience."""
        while self.alone and not self.stopped:
            self.dial()
            if self.alone:
                time.sleep(max(0.0, min(DIAL_S, self._dial_at - time.monotonic())))

    def sit_again(self) -> None:
        """Gives up an open question, which cannot be taken back: by a new connection to the same
        rank."""
        self._release()
        end = time.monotonic() + SEAT_S
        while True:
            try:
                self._enter(self.rank)
                return
            except Refused as refused:  # the node has not seen the old connection's end yet
                if time.monotonic() > end:
                    self.lose(NodeGone(str(refused)))
                    return
                time.sleep(0.01)
            except NodeGone as gone:
                self.lose(gone)
                return

    def leave(self) -> None:
        """The rank keeps exchanging, without the script."""
        held, self._left = self.is_held, True
        if held:
            with contextlib.suppress(NodeGone, Refused):
                self.node.ask(Record(kind=Kind.LEAVE))
        self._release()

    def end(self, why: str) -> None:
        """Leaves because the run is over; `why` there is no answer, for who asks nevertheless."""
        self._over, self.stopped = why, True
        self.leave()

    def give_memory_back(self) -> None:
        """Once more where the seat is left or lost: after it the model's own tensors, which lie in
        the front, were put back into the model."""
        if not self.is_held:
            self._front.part()

    def fork(self) -> None:
        """In a child of a fork. An inherited socket would hide the script's death from the node."""
        self.node.close()
        self._front.make_private()

    def _enter(self, wanted: Optional[int]) -> bool:
        """Takes the seat of the wanted rank; without one, the wanted seat if it is free, or any.
        Whether the rank had parameters, which are the model's now."""
        node = Connection(self.path)
        try:
            if wanted is not None:
                return self._join(node, wanted)
            if self._options.seat is not None:
                return self._join(node, self._options.seat, Flag.SEAT)
        except Refused as refused:
            if wanted is not None or "is not free" not in str(refused):
                raise
            node = Connection(self.path)  # another rank of this script has that seat
        return self._join(node, ANY_RANK)

    def _enter_again(self) -> bool:
        """At the same rank, or at any if another script has that one by now."""
        try:
            return self._enter(self.rank)
        except Refused as refused:
            if "is not free" not in str(refused):
                raise
        return self._enter(None)

    def _join(self, node: Connection, rank: int, flags: int = 0) -> bool:
        """`rank`: of the run, or with Flag.SEAT a seat of the node."""
        front = None
        text = self._layout.text(self._options.run, self._options.outer)
        question = Record(
            kind=Kind.JOIN,
            flags=flags,
            rank=rank,
            number=self._options.gradients,
            size=len(text),
        )
        try:
            answer = node.ask(question, text)
            front = Front(self._layout, node.take_descriptor())
            self.node, self._front = node, front
            self._finalizer = weakref.finalize(self, front.release)
            self._finalizer.atexit = False
            self._note(answer, Kind.WELCOME)
            self.rank = answer.rank
            resumed = bool(answer.flags & Flag.RESUMED)
            if resumed:
                front.take_over(bool(answer.flags & Flag.ASIDE))
            else:
                front.fill()
                self._exchange(answer.number, 1)
        except BaseException:
            if front is not None:
                front.release()
            node.close()
            raise
        return resumed

    def _exchange(self, number: int, taken: int) -> int:
        """STEP `number`: hands the front over, and takes it back with the rank's parameters."""
        share = self.share()
        question = Record(
            kind=Kind.STEP,
            number=number,
            value=self.loss,
            ranks=share.key,
            run_steps=share.passes,
            exchanges=taken,
            size=share.samples,
        )
        try:
            answer = self.node.ask(question)
            self._note(answer, Kind.FRONT)
            self._front.show()
        except (NodeGone, Refused):
            raise
        except BaseException:  # Ctrl+C: the front is the script's again only after the answer
            try:
                late = self.node.read_open_answer(INTERRUPT_S)
                if late is not None:
                    self._note(late, Kind.FRONT)
                self._front.show()
            except NodeGone as gone:
                self.lose(gone)
            raise
        self.node_seconds = answer.value
        self.counted = 0
        return answer.flags

    def _note(self, answer: Record, wanted: Kind) -> None:
        if answer.kind != wanted:
            raise NodeGone("%s sent an answer of another kind" % self.path)
        self.ranks, self.steps = answer.ranks, answer.number
        self.run_steps, self.exchanges = answer.run_steps, answer.exchanges
        self.gradients = answer.size
        self.stopped = bool(answer.flags & Flag.END)

    def _release(self) -> None:
        self._finalizer()
        self.node.close()
