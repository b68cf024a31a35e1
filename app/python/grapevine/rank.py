"""A rank of a run, for the script that computes its steps."""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
import threading
import time
import uuid
import warnings
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Sized, Tuple, Union

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from . import blobs
from .front import Front
from .layout import Watch, layout_of
from .means import Mean, put_into_model, state_dict_beside, state_dict_of
from .sampler import Sampler, Share
from .wire import ANY_RANK, Connection, Flag, Kind, NodeGone, Overdue, Record, Refused

INTERRUPT_S = 2.0  # how long an interrupted STEP waits for its answer
SEAT_S = 2.0  # until a seat that was left is free again
DIAL_S = 2.0  # between two attempts to find the node again
_MOST_MEASURES = 8  # names that a script reports
_ADVICE = (
    "in a run with a number of steps scripts do not wait for each other: use launch --gradients N "
    "or join(..., gradients=N), and rank.sampler(data) for one loop"
)
_ranks: weakref.WeakSet[Rank] = weakref.WeakSet()


class Rank:
    """A rank of a run. Made by `join`; ended by `close`, or by the end of a `with`.

    rank, ranks     its number, and the number of ranks
    steps           STEPs of this rank so far, including those of earlier scripts
    run_steps       optimizer steps of all ranks together, from the node's last answer
    gradients       optimizer steps of the whole run; 0: the run has no number
    exchanges       exchanges of this rank with its neighbours
    stopped         the run takes no more steps
    node_seconds    time of the last STEP in the node
    kept_steps      the rank's steps when the object of `kept` was stored
    loss            set by the script, shown by the node

    One thread trains. Other threads may ask for means and store objects: requests take turns.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        first: List[torch.optim.Optimizer],
        also: List[torch.optim.Optimizer],
        path: str,
        rank: Optional[int],
        seat: Optional[int],
        every: int,
        alone: float,
        run: str,
        gradients: int = 0,
        outer: Optional[Tuple[float, float]] = None,
    ) -> None:
        self.model = model
        self.rank = self.ranks = self.steps = self.run_steps = self.exchanges = 0
        self.gradients = 0
        self._wanted = gradients  # as the script has said
        self.node_seconds = 0.0
        self.stopped = False
        self.kept_steps: Optional[int] = None
        self._loss = float("nan")
        self._path, self._every, self._patience, self._run = path, every, alone, run
        self._seat, self._outer = seat, outer
        self._pid = os.getpid()
        self._thread = threading.get_ident()  # that trains
        self._lock = threading.RLock()  # of the one connection
        self._since = 0  # optimizer steps since the last STEP
        self._steps_inside = False  # an optimizer that was joined is in its step
        self._farewell = _Farewell()
        self._strangers: weakref.WeakKeyDictionary[torch.optim.Optimizer, bool]
        self._strangers = weakref.WeakKeyDictionary()
        self._swapped = False  # the model is the mean for a while
        self._ended = False  # no more steps
        self._closed = False
        self._last: Optional[Mean] = None  # that of the run, which has ended
        self._no_mean = ""  # why there is none
        self._over = False  # and the node has been left
        self._lost_at: Optional[float] = None
        self._dial_at = 0.0
        self._sampler: Optional[Sampler] = None  # the first, which is told with each STEP
        self._reported: Set[str] = set()  # names, that the node has heard
        self._by_hand = not first
        self._layout = layout_of(model, first + also)
        self._watch = Watch(model, first + also, self._layout)
        self._trained = [joined.tensor for joined in self._layout.tensors[: self._layout.trained]]
        if not any(parameter.requires_grad for parameter in self._trained):
            warnings.warn("none of the joined parameters asks for a gradient", stacklevel=3)
        self._enter(rank)
        self._hooks = [o.register_step_pre_hook(self._before) for o in first + also]
        self._hooks += [o.register_step_post_hook(self._after) for o in first]
        self._hooks += [o.register_step_post_hook(self._leave_step) for o in also]
        self._optimizers = first
        _ranks.add(self)

    def __enter__(self) -> Rank:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<rank %d of %d, %d steps%s>" % (
            self.rank,
            self.ranks,
            self.steps,
            ", alone" if self.alone else "",
        )

    def __reduce__(self) -> Tuple[Any, ...]:
        raise TypeError("a rank is a connection of this process, and cannot be pickled")

    @property
    def alone(self) -> bool:
        """Whether the node is gone, and the script trains by itself."""
        return self._lost_at is not None

    @property
    def progress(self) -> float:
        """The progress of the run, all ranks together: 0 to 1, from the node's last answer. NaN if
        the run has no number of gradients."""
        return min(1.0, self.run_steps / self.gradients) if self.gradients else math.nan

    @property
    def counts(self) -> bool:
        """Whether its sampler ends with the work of the run, or of the data."""
        return self._sampler is not None and self._sampler.counts

    @property
    def names(self) -> List[str]:
        """The trained parameters, in the order and under the names that all scripts share."""
        return [joined.name for joined in self._layout.tensors[: self._layout.trained]]

    @property
    def loss(self) -> float:
        """Of the last step; NaN: not told."""
        return self._loss

    @loss.setter
    def loss(self, value: Any) -> None:
        try:
            self._loss = float(value.detach() if isinstance(value, torch.Tensor) else value)
        except (TypeError, ValueError, RuntimeError):
            raise ValueError("rank.loss is %.60r, accepted: a number" % (value,)) from None

    # The step.

    def step(self) -> None:
        """Gives the script's changes to the rank, and takes the rank's new parameters.

        A hook calls it after the optimizer's step. Call it by hand in loops that call no single
        optimizer's `step`. Raises FloatingPointError if the script has made parameters that are not
        finite, and `NodeGone` if the node has been away for longer than `join` allows.
        """
        self._check_process()
        self._check_model()
        held, self._since = max(1, self._since), 0
        if self.stopped or self._ended:
            self._farewell()
        if self._ended:
            return
        with self._lock:
            self._thread = threading.get_ident()
            self._watch.check()
            if self.alone and not self._dial():
                return
            self._front.collect()
            try:
                flags = self._exchange_step(self.steps + 1, held)
                _increment_version(self._trained)  # a graph that is still alive shall notice
                if flags & Flag.OVER:
                    with contextlib.suppress(Refused):
                        self._take_last_mean()
            except NodeGone as gone:
                self._go_alone(gone)
                return
        if flags & Flag.NOT_FINITE:
            raise FloatingPointError(
                "rank %d: parameters are not finite; the rank keeps its old values of these"
                % self.rank
            )

    def _before(self, *_: object) -> None:
        self._check_process()
        self._check_model()
        self._steps_inside = True

    def _after(self, *_: object) -> None:
        self._steps_inside = False
        self._since += 1
        if self._since >= self._every:
            self.step()

    def _leave_step(self, *_: object) -> None:
        self._steps_inside = False

    def _notice(self, optimizer: torch.optim.Optimizer) -> None:
        """Some optimizer has made a step."""
        if self._steps_inside or self._closed:
            return
        if optimizer not in self._strangers:
            self._strangers[optimizer] = not self._watch.knows(optimizer) and self._meet(optimizer)
        if self._strangers[optimizer]:
            self._after()

    def _meet(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether the steps of an optimizer that was not joined are the rank's: what they are."""
        ours, others = self._watch.look_at(optimizer)
        name = type(optimizer).__name__
        if others:
            self._tell(
                "%s steps %d parameters of the model that are not joined (%s is one): they are in "
                "no rank and no mean; close the rank and join again"
                % (name, len(others), others[0])
            )
        if not ours or self._by_hand:
            return False
        self._tell(
            "%s was not joined and steps the rank's parameters: a STEP follows each of its steps "
            "from now on" % name
        )
        return True

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError(
                "this process was forked from the script of rank %d: it has no rank" % self.rank
            )

    def _check_model(self) -> None:
        if self._swapped:
            raise RuntimeError(
                "the model is the mean of all ranks now: no step may be taken"
            )

    def _exchange_step(self, number: int, held: int = 1) -> int:
        """STEP: hands the front over, with so many optimizer steps, and has it back. The flags of
        the answer."""
        share = self._sampler.share() if self._sampler is not None else Share()
        question = Record(
            kind=Kind.STEP,
            number=number,
            value=self._loss,
            ranks=share.key,
            run_steps=share.passes,
            exchanges=held,
            size=share.samples,
        )
        try:
            answer = self._node.ask(question)
            self._note(answer, Kind.FRONT)
            self._front.show()
        except (NodeGone, Refused):
            raise
        except BaseException:  # Ctrl+C: the front is the script's again only after the answer
            try:
                late = self._node.read_open_answer(INTERRUPT_S)
                if late is not None:
                    self._note(late, Kind.FRONT)
                self._front.show()
            except NodeGone as gone:
                self._go_alone(gone)
            raise
        self.node_seconds = answer.value
        return answer.flags

    def _note(self, answer: Record, wanted: Kind) -> None:
        if answer.kind != wanted:
            raise NodeGone("%s answers what was not asked" % self._path)
        self.ranks, self.steps = answer.ranks, answer.number
        self.run_steps, self.exchanges = answer.run_steps, answer.exchanges
        self.gradients = answer.size
        self.stopped = bool(answer.flags & Flag.END)
        if self.stopped and not self._farewell.why:
            self._farewell.why = "rank %d has done its share of the run" % self.rank

    # What is said.

    def _tell(self, what: str) -> None:
        warnings.warn("rank %d: %s" % (self.rank, what), stacklevel=4)

    def _tell_moved(self, then: str) -> None:
        self._tell(
            "its parameters have changed since STEP %d and no STEP has followed (an optimizer that "
            "was not joined, steps by hand?): %s" % (self.steps, then)
        )

    def _end(self, why: str) -> None:
        """No more steps are made, which the first one that is tried says."""
        if not self._ended:
            self._ended, self._farewell.why = True, "rank %d %s" % (self.rank, why)

    def _makes_steps(self) -> bool:
        """Whether what the script does to the model is awaited, and none of it is under way."""
        return not (self.stopped or self._ended or self.alone or self._since)

    def _look(self) -> bool:
        """Whether parameters have moved and no STEP has followed."""
        if not self._makes_steps():
            return False
        answer = self._ask_share()
        return bool(answer.flags & Flag.MOVED) or self._front.has_moved()

    # Coming and going.

    def _enter(self, wanted: Optional[int]) -> bool:
        """Takes a seat: the wanted one where it is free. Whether the rank had parameters, which
        are the model's now."""
        node = Connection(self._path)
        try:
            if wanted is not None:
                return self._take_seat(node, rank=wanted)
            if self._seat is not None:
                return self._take_seat(node, rank=self._seat, flags=Flag.SEAT)
        except Refused as refused:
            if wanted is not None or "is not free" not in str(refused):
                raise
            node = Connection(self._path)  # of two ranks of one script the second has another
        return self._take_seat(node, rank=ANY_RANK)

    def _take_seat(self, node: Connection, **seat: int) -> bool:
        front = None
        try:
            text = self._layout.text(self._run, self._outer)
            join = Record(kind=Kind.JOIN, number=self._wanted, size=len(text), **seat)
            answer = node.ask(join, text)
            front = Front(self._layout, node.take_descriptor())
            self._node, self._front = node, front
            self._finalizer = weakref.finalize(self, front.release)
            self._finalizer.atexit = False
            self._note(answer, Kind.WELCOME)
            self.rank = answer.rank
            resumed = bool(answer.flags & Flag.RESUMED)
            if resumed:
                front.take_over(bool(answer.flags & Flag.ASIDE))
            else:
                front.fill()
                self._exchange_step(answer.number)
        except BaseException:
            if front is not None:
                front.release()
            node.close()
            raise
        return resumed

    def _go_alone(self, why: NodeGone) -> None:
        self._lost_at = time.monotonic()
        self._dial_at = self._lost_at + DIAL_S
        self._release()
        if self.stopped:
            return  # the run has ended, so has its node
        self._tell("the node is gone (%s); the script continues to train alone" % why)

    def _dial(self) -> bool:
        """Looks for the node again, once in a while. Whether a STEP can be made: never at once, for
        the rank's parameters have just taken the place of the script's, or the other way round."""
        now = time.monotonic()
        if now < self._dial_at or self._lost_at is None or self.stopped:
            return False
        self._dial_at = now + DIAL_S
        try:
            resumed = self._enter_again()
        except (NodeGone, Refused) as error:
            away = time.monotonic() - self._lost_at
            if away > self._patience:
                raise NodeGone("the node has been gone for %d s (%s)" % (away, error)) from None
            return False
        self._lost_at = None
        _increment_version(self._trained)
        told = "its parameters; the script's own steps since are not in it"
        warnings.warn(
            "joined again as rank %d, with %s" % (self.rank, told if resumed else "the script's"),
            stacklevel=3,
        )
        return False

    def _enter_again(self) -> bool:
        """At the rank that it had, or where that is another's by now, at any."""
        try:
            return self._enter(self.rank)
        except Refused as refused:
            if "is not free" not in str(refused):
                raise
        return self._enter(None)

    def _find_node(self) -> None:
        """Waits for a node that is gone, for as long as the script has patience."""
        while self.alone and not self.stopped:
            self._dial()
            if self.alone:
                time.sleep(max(0.0, min(DIAL_S, self._dial_at - time.monotonic())))

    def close(self) -> None:
        """Leaves the rank, which keeps exchanging. The model gets its own memory again."""
        if os.getpid() != self._pid or self._closed:
            return
        moved = False
        with self._lock:
            self._closed = True
            with contextlib.suppress(NodeGone, Refused):
                moved = self._look()
            self._leave()
            _ranks.discard(self)
            self._end("is closed")
            for hook in self._hooks:
                hook.remove()  # they hold the rank; its last word does not
            self._hooks = [o.register_step_post_hook(self._farewell) for o in self._optimizers]
        if moved:
            self._tell_moved("their present values are in no rank")

    def _leave(self) -> None:
        if not (self.alone or self._over):
            with contextlib.suppress(NodeGone, Refused):
                self._node.ask(Record(kind=Kind.LEAVE))
        self._release()

    def _release(self) -> None:
        self._finalizer()
        self._node.close()

    def _sit_again(self) -> None:
        """Gives a question up that nobody can take back: by a new connection to the same rank."""
        self._release()
        end = time.monotonic() + SEAT_S
        while True:
            try:
                self._enter(self.rank)
                return
            except Refused as refused:  # the node has not seen the old connection's end yet
                if time.monotonic() > end:
                    self._go_alone(NodeGone(str(refused)))
                    return
                time.sleep(0.01)
            except NodeGone as gone:
                self._go_alone(gone)
                return

    def _forked(self) -> None:
        """In a child of a fork. An inherited socket would hide the script's death from the node."""
        self._node.close()
        self._front.make_private()

    # Data, means, blobs.

    def sampler(
        self,
        dataset: Sized,
        seed: int = 0,
        epochs: Optional[float] = None,
        partition: Optional[bool] = None,
        batch: Optional[int] = None,
    ) -> Sampler:
        """This rank's samples of a data set, for `DataLoader(dataset, sampler=...)`.

        With `epochs`, or where the run has a number of gradients, it counts: `for batch in loader:`
        is the whole loop, which ends when the work of the run is done. Without a number the epochs
        make one: epochs * samples / batch, as soon as the first script knows how many samples are
        in an optimizer step. Else an iteration is one pass, and the script counts.

        epochs     passes over the data by all ranks together; the gradients of the run go before
        partition  True: a share of the data that is this rank's alone; False: all of the data, in
                   an order of its own; None: all of them where it counts with other ranks
        batch      samples of an optimizer step; None: as many as lie between the first two STEPs

        The first sampler counts, and goes on where the rank's last script was in the same data. A
        later one without `epochs` is a pass over this rank's share.
        """
        self._check_process()
        try:
            size = len(dataset)
        except TypeError:
            raise ValueError(
                "a %s has no length, accepted: a data set with len()" % type(dataset).__name__
            ) from None
        if epochs is not None and not (_is_number(epochs) and 0 < epochs < math.inf):
            raise ValueError("epochs is %s, accepted: a number above 0" % (epochs,))
        if batch is not None and not (isinstance(batch, int) and batch > 0):
            raise ValueError("batch is %s, accepted: 1 or more samples" % (batch,))
        if self._sampler is not None and epochs is None:
            return Sampler(self, size, seed, partition=partition is not False)
        at, work = None, None
        with self._lock, contextlib.suppress(NodeGone):
            if not (self.alone or self._over or self._closed):
                told = self._ask_share()
                at = Share(told.ranks, told.run_steps, told.size)
                work = None if math.isnan(told.value) else _Work(self)
        if partition is None:
            partition = work is None or (epochs is None and not self.gradients)
        self._sampler = Sampler(
            self, size, seed, at, epochs, partition, work, self._every, batch
        )
        return self._sampler

    def _ask_share(self, gradients: int = 0) -> Record:
        """Where the rank is in its data, and the run. `gradients`: as many as the data make."""
        told = self._node.ask(Record(kind=Kind.SHARE, number=gradients))
        self.gradients = told.number
        return told

    def mean_state_dict(self) -> Dict[str, Any]:
        """The mean over all live ranks of what is trained and of the float buffers: fresh memory.

        Every key of `model.state_dict()`; what is not joined is this model's. Raises NodeGone while
        the node is gone, and RuntimeError once the rank is closed.
        """
        return self._state_dict(self._mean())

    @contextlib.contextmanager
    def mean(self) -> Iterator[torch.nn.Module]:
        """The model as the mean of all ranks, for a while: to evaluate, never to step."""
        if threading.get_ident() != self._thread:
            raise RuntimeError(
                "the model becomes the mean in the thread that trains it; elsewhere: "
                "mean_state_dict()"
            )
        mean = self._mean()
        self._swapped = True
        try:
            with put_into_model(mean):
                yield self.model
        finally:
            self._swapped = False

    def finish(self, timeout: Optional[float] = None) -> Dict[str, Any]:
        """No more steps. Waits until the other ranks have done theirs: the mean of all.

        After `timeout` seconds, or at Ctrl+C, it is the mean of now, and the rank gossips on until
        `close`. Raises NodeGone where the node is gone, and does not come back in time.
        """
        self._check_process()
        self._check_open()
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            self._finish_steps()
            if self._last is None:
                self._find_node()
            mean = self._last
            if mean is None:
                try:
                    mean = self._take_last_mean(deadline)
                except (KeyboardInterrupt, Overdue):
                    mean = self._last
                    if mean is None:
                        self._sit_again()
                        mean = self._ask_mean(Kind.MEAN)
        return state_dict_of(self.model, mean)

    def save_mean(
        self, path: Union[str, os.PathLike[str]], timeout: Optional[float] = None
    ) -> Dict[str, Any]:
        """`finish`, and the mean as a file, whole or as it was before: the scripts of a run may all
        name the same one. Returns the mean."""
        state = self.finish(timeout)
        part = "%s.%s.part" % (os.fspath(path), uuid.uuid4().hex)
        try:
            with open(part, "xb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise
        return state

    def keep(self, what: object) -> bool:
        """Leaves an object with the rank, for the script that comes after this one.

        Whatever `torch.save` writes and `torch.load(weights_only=True)` reads; the optimizer's
        state, say: else it is a ValueError, and what was kept before stays. False while the node is
        gone, and once the run is over.
        """
        self._check_process()
        self._check_open()
        data = blobs.written(what)
        with self._lock:
            if self.alone or self._over:
                return False
            blob = blobs.in_memory(data)
            try:
                question = Record(kind=Kind.KEEP, number=self.steps, size=len(data))
                self._node.ask(question, descriptor=blob)
            except NodeGone as gone:
                self._go_alone(gone)
                return False
            finally:
                os.close(blob)
        return True

    def kept(self) -> Any:
        """What a script has left with this rank, or None; `kept_steps` is the rank's step then.

        Raises NodeGone while the node is gone.
        """
        self._check_process()
        self._check_open()
        with self._lock:
            self._check_node("what was kept")
            try:
                answer = self._node.ask(Record(kind=Kind.KEPT))
                descriptor = self._node.take_descriptor() if answer.size else -1
            except NodeGone as gone:
                self._go_alone(gone)
                raise
        if descriptor < 0:
            return None
        self.kept_steps = answer.number
        return blobs.read(blobs.of_descriptor(descriptor, answer.size))

    def report(self, **measured: Any) -> bool:
        """Tells what the script has measured: `rank.report(val_loss=loss, accuracy=part)`.

        The latest of each name stands in the status of the node and in its metrics, and is in the
        curves of the run. At most 8 names of 1 to 32 characters a to z, 0 to 9 and _, and finite
        numbers: else it is a ValueError, and nothing is told. False while the node is gone, and
        once the run is over.
        """
        self._check_process()
        self._check_open()
        names = self._reported.union(measured)
        if not measured or len(names) > _MOST_MEASURES:
            raise ValueError(
                "report of %d names, %d in all, accepted: 1 to %d in all"
                % (len(measured), len(names), _MOST_MEASURES)
            )
        text = "".join("%s %r\n" % (name, _measure(name, measured[name])) for name in measured)
        with self._lock:
            if self.alone or self._over:
                return False
            try:
                self._node.ask(Record(kind=Kind.REPORT, size=len(text)), text.encode())
            except NodeGone as gone:
                self._go_alone(gone)
                return False
            self._reported = names
        return True

    def checkpoint(self) -> Optional[str]:
        """Has the node write its ranks down, with what scripts have left by `keep`; as it does now
        and then by itself. The checkpoint's folder, as the node calls it; None while it is gone.

        Raises RuntimeError with the reason where none is written: the node has no run directory,
        the disk is full, the run is over.
        """
        self._check_process()
        self._check_open()
        with self._lock:
            if self._over:
                raise RuntimeError("no checkpoint: the run is over")
            if self.alone:
                return None
            try:
                answer = self._node.ask(Record(kind=Kind.CHECKPOINT))
            except NodeGone as gone:
                self._go_alone(gone)
                return None
            text = self._node.text
        if answer.flags & Flag.NOT_SAVED:
            raise RuntimeError(text)
        return text[len("checkpoint ") :]

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(
                "rank %d is closed: ask for means before close(), within the `with`" % self.rank
            )

    def _check_node(self, what: str) -> None:
        """Raises NodeGone where there is none to ask."""
        if self.alone or self._over:
            over = self._no_mean or "the run is over, and its node has left"
            why = over if self.stopped else "the node is gone"
            raise NodeGone("%s of rank %d cannot be had: %s" % (what, self.rank, why))

    def _finish_steps(self) -> None:
        if not self._ended:
            if self._since:
                self.step()
            moved = False
            try:
                moved = self._look()
            except NodeGone as gone:
                self._go_alone(gone)
            if moved:
                self._tell_moved("they are given to the rank as one")
                self.step()
        self._end("has finished")

    def _mean(self) -> Mean:
        """That of now, or of the run where it has ended."""
        self._check_process()
        self._check_open()
        with self._lock:
            if self._last is not None:
                return self._last
            self._check_node("the mean")
            trains = threading.get_ident() == self._thread  # else a step may be under way
            try:
                if trains and self._look():
                    self._tell_moved("their present values are not in the mean")
            except NodeGone as gone:
                self._go_alone(gone)
            return self._ask_mean(Kind.MEAN)

    def _ask_mean(
        self,
        kind: Kind,
        deadline: Optional[float] = None,
        on_wait: Callable[[Record], None] = lambda _: None,
    ) -> Mean:
        self._check_node("the mean")
        try:
            answer = self._node.ask(Record(kind=kind), deadline=deadline, on_wait=on_wait)
            descriptor = self._node.take_descriptor()
        except NodeGone as gone:
            self._go_alone(gone)
            raise
        try:
            return Mean(self._layout, descriptor, answer.ranks)
        finally:
            os.close(descriptor)

    def _take_last_mean(self, deadline: Optional[float] = None) -> Mean:
        """The mean of the run, when it has ended. Its node goes as soon as its scripts have that,
        and asks nothing of them any more: the script leaves."""
        try:
            self._last = self._ask_mean(Kind.FINISH, deadline, _Waits(self))
        except Refused as refused:
            self._no_mean = str(refused)
            raise
        finally:
            if self._last is not None or self._no_mean:
                self._end("has ended with its run")
                self._leave()
                self._over = self.stopped = True
        return self._last

    def _state_dict(self, mean: Mean) -> Dict[str, Any]:
        if self._swapped or threading.get_ident() != self._thread:
            return state_dict_beside(self.model, mean)
        return state_dict_of(self.model, mean)


class _Farewell:
    """Says once that what a script does is in no rank any more. Optimizers hold it, and by it no
    rank."""

    def __init__(self) -> None:
        self.why = ""
        self._said = False

    def __call__(self, *_: object) -> None:
        if not self._said:
            self._said = True
            warnings.warn(self.why + ": steps of its script are in no rank now", stacklevel=4)


class _Work:
    """What a sampler has to know of the work of all ranks."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank

    @property
    def run_steps(self) -> int:
        return self._rank.run_steps

    @property
    def gradients(self) -> int:
        return self._rank.gradients

    def told(self, gradients: int = 0) -> int:
        """Optimizer steps that all are known to have taken, and no estimate. `gradients`: the
        work, where it is not known yet."""
        rank = self._rank
        with rank._lock, contextlib.suppress(NodeGone):
            if not (rank.alone or rank._over or rank._closed):
                told = int(rank._ask_share(gradients).value)
                rank.run_steps = max(rank.run_steps, told)
                return told
        return rank.run_steps


class _Waits:
    """Says after a second for whom `finish` waits, and again where that is another. It is a warning
    where nobody is there who would ever finish."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._said: Optional[Tuple[int, bool]] = None
        self._advises = not rank.gradients

    def __call__(self, wait: Record) -> None:
        empty = bool(wait.flags & Flag.EMPTY)
        if (wait.rank, empty) == self._said or not wait.ranks:
            return
        self._said = (wait.rank, empty)
        whom = "other nodes"
        if wait.rank != ANY_RANK:
            more = " and %d more" % (wait.ranks - 1) if wait.ranks > 1 else ""
            whom = "rank %d%s" % (wait.rank, more)
        line = "rank %d has finished and waits for %s" % (self._rank.rank, whom)
        if empty:
            warnings.warn(line + ", where no script sits", stacklevel=6)
        else:
            print("grapevine: " + line, file=sys.stderr, flush=True)
        if self._advises:
            self._advises = False
            print("grapevine: " + _ADVICE, file=sys.stderr, flush=True)


def _measure(name: str, value: Any) -> float:
    """A finite number, or a tensor that is one, under a name that everybody can show."""
    if not re.fullmatch("[a-z0-9_]{1,32}", name):
        raise ValueError(
            "report of %.60r, accepted: names of 1 to 32 characters a to z, 0 to 9 and _" % name
        )
    try:
        number = float(value.detach() if isinstance(value, torch.Tensor) else value)
    except (TypeError, ValueError, RuntimeError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError("report of %s is %.60r, accepted: a finite number" % (name, value))
    return number


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _takes_many() -> bool:
    """Whether torch increments the versions of many tensors in one call: from 2.5 on."""
    try:
        torch.autograd.graph.increment_version([torch.zeros(1)])
    except (RuntimeError, TypeError):
        return False
    return True


_TAKES_MANY = _takes_many()


def _increment_version(tensors: List[torch.Tensor]) -> None:
    if _TAKES_MANY:
        torch.autograd.graph.increment_version(tensors)
        return
    for tensor in tensors:
        torch.autograd.graph.increment_version(tensor)


def open_ranks() -> List[Rank]:
    """Those of this process that are not closed."""
    while True:
        try:
            return list(_ranks)
        except RuntimeError:  # another thread has joined meanwhile
            continue


def _after_step(optimizer: torch.optim.Optimizer, *_: object) -> None:
    for rank in open_ranks():
        rank._notice(optimizer)


def _after_fork_in_child() -> None:
    for rank in open_ranks():
        rank._forked()


os.register_at_fork(after_in_child=_after_fork_in_child)
register_optimizer_step_post_hook(_after_step)
