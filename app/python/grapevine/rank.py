"""A rank of a run, for the script that computes its steps."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
import warnings
import weakref
from typing import Any, Dict, Iterator, List, Optional, Set, Sized, Tuple, Union

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle

from . import blobs, reports
from .given import real, whole
from .layout import layout_of
from .means import Mean, put_into_model, save, state_dict_beside, state_dict_of, writable
from .run_means import RunMeans
from .sampler import Sampler, Share
from .seat import JoinOptions, Seat
from .watching import Farewell, OptimizerSteps, Watch
from .wire import Connection, Flag, Kind, NodeGone, Record, Refused

_COUNT_S = 0.2  # between two counts of the optimizer steps of an unfinished STEP
_ranks: weakref.WeakSet[Rank] = weakref.WeakSet()
_farewells: weakref.WeakKeyDictionary[torch.optim.Optimizer, RemovableHandle]
_farewells = weakref.WeakKeyDictionary()  # the hooks of optimizers whose rank is closed


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
        every: int,
        options: JoinOptions,
    ) -> None:
        self.model = model
        self.kept_steps: Optional[int] = None
        self._every = every
        self._pid = os.getpid()
        self._thread = threading.get_ident()  # the one that trains
        self._farewell = Farewell()
        self._swapped = False  # the model is the mean for a while
        self._ended = False  # no more steps
        self._count_at = 0.0
        self._idle = True  # the script has made no STEP, and was not told so
        self._closed = False
        self._sampler: Optional[Sampler] = None  # the first; each STEP tells its position
        self._reported: Set[str] = set()  # names that the node knows
        self._layout = layout_of(model, first + also)
        self._watch = Watch(model, first + also, self._layout)
        self._optimizer_steps = OptimizerSteps(self._watch, every, by_hand=not first)
        if not any(joined.tensor.requires_grad for joined in self._layout.parameters()):
            warnings.warn("none of the joined parameters requires a gradient", stacklevel=3)
        self._seat = Seat(self._layout, options)
        self._means = RunMeans(self._seat, self._layout)
        self._hooks = [o.register_step_pre_hook(self._before) for o in first + also]
        self._hooks += [o.register_step_post_hook(self._after) for o in first]
        self._hooks += [o.register_step_post_hook(self._leave_step) for o in also]
        self._optimizers = first
        for optimizer in first + also:
            if optimizer in _farewells:
                _farewells.pop(optimizer).remove()  # its steps are in this rank now
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
    def rank(self) -> int:
        return self._seat.rank

    @property
    def ranks(self) -> int:
        return self._seat.ranks

    @property
    def steps(self) -> int:
        return self._seat.steps

    @property
    def run_steps(self) -> int:
        return self._seat.run_steps

    @property
    def gradients(self) -> int:
        return self._seat.gradients

    @property
    def exchanges(self) -> int:
        return self._seat.exchanges

    @property
    def stopped(self) -> bool:
        return self._seat.stopped

    @property
    def node_seconds(self) -> float:
        return self._seat.node_seconds

    @property
    def alone(self) -> bool:
        """Whether the node is gone, and the script trains by itself."""
        return self._seat.alone

    @property
    def progress(self) -> float:
        """The progress of the run, all ranks together: 0 to 1, from the node's last answer. NaN if
        the run has no number of gradients."""
        return min(1.0, self.run_steps / self.gradients) if self.gradients else math.nan

    @property
    def counts(self) -> bool:
        """Whether an iteration of its sampler is the whole training loop."""
        return self._sampler is not None and self._sampler.counts

    @property
    def names(self) -> List[str]:
        """The trained parameters, in the order and under the names that all scripts share."""
        return [joined.name for joined in self._layout.parameters()]

    @property
    def loss(self) -> float:
        """That of the last step; NaN: the script has not set it."""
        return self._seat.loss

    @loss.setter
    def loss(self, value: Any) -> None:
        try:
            self._seat.loss = reports.number(value)
        except ValueError:
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
        taken = self._optimizer_steps.take()
        if self.stopped and not self._ended:
            self._farewell.why = "rank %d has done its share of the run" % self.rank
        if self.stopped or self._ended:
            self._farewell()
        if self._ended:
            return
        with self._seat.lock:
            self._thread = threading.get_ident()
            self._watch.check()
            if self.alone:
                self._seat.dial()
                return  # in any case: joining again has just exchanged the parameters
            try:
                flags = self._seat.step(taken)
                self._idle = False
                if flags & Flag.OVER:
                    self._take_last_mean()
            except NodeGone:
                return
        if flags & Flag.NOT_FINITE:
            raise FloatingPointError(
                "rank %d: parameters are not finite; the rank keeps its old values of these"
                % self.rank
            )

    def _before(self, *_: object) -> None:
        self._check_process()
        self._check_model()
        self._optimizer_steps.begin()

    def _after(self, *_: object) -> None:
        if self._optimizer_steps.count() or self._is_enough():
            self.step()

    def _is_enough(self) -> bool:
        """Within a STEP of many optimizer steps, a few times a second: the pool counts those taken
        so far. Whether the work of the run is done, so that the STEP is due as it is."""
        now = time.monotonic()
        if not self.gradients or now < self._count_at or self.stopped or self._ended:
            return False
        self._count_at = now + _COUNT_S
        with self._seat.lock, contextlib.suppress(NodeGone):
            if self._seat.is_held:
                enough = self._seat.count(self._optimizer_steps.since)
                if self._sampler is not None:
                    self._sampler.look()
                return enough
        return False

    def _leave_step(self, *_: object) -> None:
        self._optimizer_steps.leave()

    def _notice(self, optimizer: torch.optim.Optimizer) -> None:
        """Some optimizer has made a step."""
        if not self._closed and self._optimizer_steps.counts(optimizer, self.rank):
            self._after()

    # Data.

    def sampler(
        self,
        dataset: Sized,
        seed: int = 0,
        epochs: Optional[float] = None,
        partition: Optional[bool] = None,
        batch: Optional[int] = None,
    ) -> Sampler:
        """This rank's samples of a data set, for `DataLoader(dataset, sampler=...)`.

        With `epochs`, or if the run has a number of gradients, one `for batch in loader:` is the
        whole training loop, which ends when the work of the run is done. If the run has no number,
        the epochs make one: epochs * samples / batch, as soon as the first script knows how many
        samples are in an optimizer step. Otherwise an iteration is one pass, and the script counts.

        epochs     passes over the data by all ranks together; the run's own number takes precedence
        partition  True: a share of the data that is this rank's alone; False: all of the data, in
                   an order of its own; None: False if it counts the work of all, otherwise True
        batch      samples of an optimizer step; None: as many as lie between the first two STEPs

        The first sampler continues where the rank's last script was in the same data. A later one
        without `epochs` is a pass over this rank's share.
        """
        self._check_open()
        try:
            size = len(dataset)
        except TypeError:
            raise ValueError(
                "a %s has no length, accepted: a data set with len()" % type(dataset).__name__
            ) from None
        passes, samples, key = real(epochs), whole(batch, 1), whole(seed, -(2**63), 2**64 - 1)
        if epochs is not None and not 0 < (passes or 0) < math.inf:
            raise ValueError("epochs is %s, accepted: a number above 0" % (epochs,))
        if batch is not None and samples is None:
            raise ValueError("batch is %s, accepted: 1 or more samples" % (batch,))
        if key is None:
            raise ValueError("seed is %s, accepted: a whole number" % (seed,))
        if self._sampler is not None and epochs is None:
            return Sampler(self, size, key, partition=partition is not False)
        at, work = None, None
        with self._seat.lock, contextlib.suppress(NodeGone):
            if self._seat.is_held:
                told = self._seat.ask_share()
                at = Share(told.ranks, told.run_steps, told.size)
                work = None if math.isnan(told.value) else self._seat
        if partition is None:
            partition = work is None or (epochs is None and not self.gradients)
        self._sampler = Sampler(
            self, size, key, at, passes, partition, work, self._every, samples
        )
        self._seat.share = self._sampler.share
        return self._sampler

    # Means and the end.

    def mean_state_dict(self) -> Dict[str, Any]:
        """The mean over all live ranks, as `model.state_dict()` in memory of its own.

        The trained parameters and the float buffers are means; the rest is this model's. Raises
        NodeGone while the node is gone, and RuntimeError once the rank is closed.
        """
        mean = self._mean()
        if self._swapped or threading.get_ident() != self._thread:
            return state_dict_beside(self.model, mean)
        return state_dict_of(self.model, mean)

    @contextlib.contextmanager
    def mean(self) -> Iterator[torch.nn.Module]:
        """Within the `with`, the model is the mean of all ranks: to evaluate. Steps raise."""
        if threading.get_ident() != self._thread:
            raise RuntimeError(
                "the model becomes the mean in the thread that trains it; elsewhere: "
                "mean_state_dict()"
            )
        mean = self._mean()
        before, self._swapped = self._swapped, True  # it may be within another `with rank.mean()`
        try:
            with put_into_model(mean):
                yield self.model
        finally:
            self._swapped = before
            self._seat.give_memory_back()

    def finish(self, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Makes no more steps, waits until all ranks have made theirs, and returns their mean.

        After `timeout` seconds, or at Ctrl+C, it returns the present mean, and the rank keeps
        exchanging until `close`. Raises NodeGone if the node is gone and stays so for too long.
        """
        self._check_open()
        if timeout is not None and real(timeout) is None:
            raise ValueError("timeout is %r, accepted: None, or seconds" % (timeout,))
        self._check_model()
        self._watch.check_model()
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._seat.lock:
            self._finish_steps()
            mean = self._means.finish(deadline)
        return state_dict_of(self.model, mean)

    def save_mean(
        self, path: Union[str, os.PathLike[str]], timeout: Optional[float] = None
    ) -> Dict[str, Any]:
        """`finish`, and writes the mean to a file. The file is replaced whole, so all scripts of a
        run may name the same one. Returns the mean. Raises before it waits if there can be no such
        file."""
        name = writable(path)
        state = self.finish(timeout)
        save(state, name)
        return state

    def close(self) -> None:
        """Leaves the rank, which keeps exchanging. The model gets its own memory again."""
        if os.getpid() != self._pid or self._closed:
            return
        moved = False
        with self._seat.lock:
            self._closed = True
            with contextlib.suppress(NodeGone, Refused):
                moved = self._makes_steps() and self._seat.has_moved()
            if self._optimizer_steps.elsewhere and not moved:
                self._warn_if_idle()
            self._seat.leave()
            _ranks.discard(self)
            self._end("is closed")
            for hook in self._hooks:
                hook.remove()  # it refers to the rank; the farewell does not
            for optimizer in self._optimizers:
                _farewells[optimizer] = optimizer.register_step_post_hook(self._farewell)
        if moved:
            self._tell_moved("their present values are in no rank")

    def _mean(self) -> Mean:
        """That of the run if it has ended, otherwise the present one."""
        self._check_open()
        self._watch.check_model()
        with self._seat.lock:
            if self._means.last is None:
                self._seat.check("the mean")
                if threading.get_ident() == self._thread:  # else a step may be under way
                    self._warn_if_moved("their present values are not in the mean")
                    if self._optimizer_steps.elsewhere:
                        self._warn_if_idle()
            return self._means.now()

    def _finish_steps(self) -> None:
        if not self._ended:
            if self._optimizer_steps.since:
                self.step()
            if self._warn_if_moved("they are given to the rank as one"):
                self.step()
            if self._optimizer_steps.elsewhere:
                self._warn_if_idle()
        self._end("has finished")

    def _take_last_mean(self) -> None:
        try:
            with contextlib.suppress(Refused):
                self._means.take_last()
        finally:
            if self._seat.is_over:
                self._end("has ended with its run")

    def _end(self, why: str) -> None:
        """Makes no more steps. The first step that the script tries warns of it, with `why`."""
        if not self._ended:
            self._ended, self._farewell.why = True, "rank %d %s" % (self.rank, why)

    # Requests: what the node keeps, shows or writes.

    def keep(self, what: object) -> bool:
        """Stores an object with the rank, for the rank's next script.

        Accepts what `torch.save` writes and `torch.load(weights_only=True)` reads, for example the
        optimizer's state. Raises ValueError for anything else, and what was stored before stays.
        Returns False, and stores nothing, while the node is gone and once the run is over.
        """
        self._check_open()
        data = blobs.written(what)
        with self._seat.lock:
            if not self._seat.is_held:
                return False
            blob = blobs.in_memory(data)
            try:
                question = Record(kind=Kind.KEEP, number=self.steps, size=len(data))
                return self._seat.try_ask(question, descriptor=blob) is not None
            finally:
                os.close(blob)

    def kept(self) -> Any:
        """The object that a script has stored with this rank, or None. `kept_steps` is set to the
        rank's steps at that time.

        Raises NodeGone while the node is gone.
        """
        self._check_open()
        with self._seat.lock:
            self._seat.check("what was kept")
            answer = self._seat.call(lambda node: node.ask(Record(kind=Kind.KEPT)))
            descriptor = self._seat.call(Connection.take_descriptor) if answer.size else -1
        if descriptor < 0:
            return None
        self.kept_steps = answer.number
        return blobs.read(blobs.of_descriptor(descriptor, answer.size))

    def report(self, **measured: Any) -> bool:
        """Tells the node what the script has measured: `rank.report(val_loss=loss, accuracy=part)`.

        The status, the metrics and the curves of the run show the latest number of each name.
        Accepts at most 8 names of 1 to 32 characters a to z, 0 to 9 and _, and finite numbers.
        Raises ValueError for anything else, and tells nothing. Returns False while the node is gone
        and once the run is over.
        """
        self._check_open()
        names = self._reported.union(measured)
        text = reports.text_of(measured, names)
        with self._seat.lock:
            question = Record(kind=Kind.REPORT, size=len(text))
            told = self._seat.try_ask(question, text) is not None
            if told:
                self._reported = names
        return told

    def checkpoint(self) -> Optional[str]:
        """Makes the node save its ranks, with the objects that scripts have stored by `keep`.

        Returns the checkpoint's folder, as the node calls it, or None while the node is gone.
        Raises RuntimeError with the reason if none is written: the node has no run directory, the
        disk is full, the run is over.
        """
        self._check_open()
        with self._seat.lock:
            if self._seat.is_over:
                raise RuntimeError("no checkpoint: the run is over")
            answer = self._seat.try_ask(Record(kind=Kind.CHECKPOINT))
            text = self._seat.node.text
        if answer is None:
            return None
        if answer.flags & Flag.NOT_SAVED:
            raise RuntimeError(text)
        return text[len("checkpoint ") :]

    # Checks.

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

    def _check_open(self) -> None:
        self._check_process()
        if self._closed:
            raise RuntimeError(
                "rank %d is closed: ask for means and samples before close(), within the `with`"
                % self.rank
            )

    def _tell(self, what: str) -> None:
        warnings.warn("rank %d: %s" % (self.rank, what), stacklevel=4)

    def _tell_moved(self, then: str) -> None:
        self._tell(
            "its parameters have changed since STEP %d and no STEP has followed (an optimizer that "
            "was not joined, steps by hand?): %s" % (self.steps, then)
        )

    def _warn_if_idle(self) -> None:
        """Warns once of a script that makes no STEP, in a run that takes steps."""
        if self._idle and self._makes_steps():
            self._idle = False
            self._tell(
                "its script has made no STEP, so the mean has nothing of it: does the optimizer "
                "step another model, a copy of the joined one?"
            )

    def _makes_steps(self) -> bool:
        """Whether the rank makes STEPs, and no optimizer step has come since the last one. What has
        changed since then, has changed unseen."""
        since = self._optimizer_steps.since
        return not (self.stopped or self._ended or self.alone or self._swapped or since)

    def _warn_if_moved(self, then: str) -> bool:
        """Warns if parameters have changed and no STEP has followed. Whether they have."""
        try:
            moved = self._makes_steps() and self._seat.has_moved()
        except NodeGone as gone:
            self._seat.lose(gone)
            return False
        if moved:
            self._tell_moved(then)
        return moved


def _open_ranks() -> List[Rank]:
    """Those of this process that are not closed; in a child of a fork also the parent's."""
    while True:
        try:
            return list(_ranks)
        except RuntimeError:  # another thread has joined meanwhile
            continue


def ranks_at(path: str) -> List[Rank]:
    """The open ranks of this script at a node's socket."""
    return [rank for rank in _open_ranks() if rank._seat.path == path]


def leave_first_rank(model: torch.nn.Module, path: str) -> Optional[int]:
    """Closes the rank of a model that joins again. Its number, if that node may give it again."""
    parameters = {id(parameter) for parameter in model.parameters()}
    wanted = None
    for rank in _open_ranks():
        trained = rank._layout.parameters()
        if rank._pid == os.getpid() and any(id(joined.tensor) in parameters for joined in trained):
            rank._tell("its model joins again, and leaves it")
            wanted = rank.rank if rank._seat.path == path and not rank.alone else None
            rank.close()
    return wanted


def _after_step(optimizer: torch.optim.Optimizer, *_: object) -> None:
    for rank in _open_ranks():
        rank._notice(optimizer)


def _after_fork_in_child() -> None:
    for rank in _open_ranks():
        rank._seat.fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
register_optimizer_step_post_hook(_after_step)
