"""A rank of a run, as the script that computes its steps sees it: `join` and `Rank`."""

from __future__ import annotations

import contextlib
import fcntl
import io
import mmap
import multiprocessing
import os
import time
import warnings
import weakref
from typing import Any, Dict, Iterator, List, Optional, Sequence, Sized

import torch

from .front import Front, bytes_of, views_of
from .layout import Watch, layout_of
from .sampler import Sampler
from .wire import ANY_RANK, Connection, Flag, Kind, NodeGone, Overdue, Record, Refused

INTERRUPT_S = 2.0  # how long an interrupted STEP waits for its answer
SEAT_S = 2.0  # until a seat that was left is free again
DIAL_S = 2.0  # between two attempts to find the node again
_ranks: weakref.WeakSet[Rank] = weakref.WeakSet()


def join(
    model: torch.nn.Module,
    optimizer: Optional[torch.optim.Optimizer],
    node: Optional[str] = None,
    rank: Optional[int] = None,
    every: int = 1,
    also: Sequence[torch.optim.Optimizer] = (),
    alone: float = 60.0,
    run: str = "",
) -> Rank:
    """Joins the run of a node: from now on the rank's parameters are `model`'s.

    What the optimizers step is joined. A rank that has parameters already (a run that goes on, a
    rank whose script died) gives them to `model`; a new run begins with `model`'s.

    model      any module that is not sharded; fp32, bf16 or fp16, on any device
    optimizer  its `step` is followed by a STEP of the rank; None: the script calls `rank.step()`
    node       the path of the node's door; None: `$GRAPEVINE_NODE`
    rank       the wanted rank; None: any that is free
    every      optimizer steps a STEP
    also       other optimizers of the model, stepped before `optimizer` (two optimizers of a GAN)
    alone      for how many seconds the script trains on alone when the node is gone
    run        the name of the run that is meant; "": the node's own

    Raises ValueError for what cannot be joined, `Refused` with the node's reason, `NodeGone`.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(
            "a worker process imports this script and would join too: "
            'put the training under `if __name__ == "__main__":`'
        )
    path = node or os.environ.get("GRAPEVINE_NODE")
    if not path:
        raise ValueError("no node: give node=PATH or set GRAPEVINE_NODE")
    if every < 1:
        raise ValueError("every is %s, accepted: 1 or more optimizer steps a STEP" % every)
    first = [_innermost(optimizer)] if optimizer is not None else []
    return Rank(model, first, [_innermost(o) for o in also], path, rank, every, alone, run)


class Rank:
    """A rank of a run. Made by `join`; ended by `close`, or by the end of a `with`.

    rank, ranks     which one, of how many
    steps           STEPs of this rank so far, of earlier scripts too
    run_steps       of all ranks together, as of the last answer: for schedules by global progress
    exchanges       of this rank with its neighbours
    stopped         the run takes no more steps
    node_seconds    that the last STEP took in the node
    kept_steps      of `kept`: the rank's steps when the blob was left
    loss            the script may say it here; the node shows it
    """

    def __init__(
        self,
        model: torch.nn.Module,
        first: List[torch.optim.Optimizer],
        also: List[torch.optim.Optimizer],
        path: str,
        rank: Optional[int],
        every: int,
        alone: float,
        run: str,
    ) -> None:
        self.model = model
        self.rank = self.ranks = self.steps = self.run_steps = self.exchanges = 0
        self.node_seconds = 0.0
        self.loss = float("nan")
        self.stopped = False
        self.kept_steps: Optional[int] = None
        self._path, self._every, self._patience, self._run = path, every, alone, run
        self._pid = os.getpid()
        self._since = 0  # optimizer steps since the last STEP
        self._swapped = False  # the model is the mean for a while
        self._ended = False  # no more steps
        self._closed = False
        self._lost_at: Optional[float] = None
        self._dial_at = 0.0
        self._layout = layout_of(model, first + also)
        self._watch = Watch(model, first + also, self._layout)
        self._trained = [joined.tensor for joined in self._layout.tensors[: self._layout.trained]]
        self._enter(ANY_RANK if rank is None else rank)
        self._hooks = [o.register_step_pre_hook(self._before) for o in first + also]
        self._hooks += [o.register_step_post_hook(self._after) for o in first]
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

    @property
    def alone(self) -> bool:
        """Whether the node is gone, and the script trains by itself."""
        return self._lost_at is not None

    @property
    def names(self) -> List[str]:
        """What is trained, in the order and under the names that all scripts of a run share."""
        return [joined.name for joined in self._layout.tensors[: self._layout.trained]]

    # The step.

    def step(self) -> None:
        """Gives what the script has done to the rank, and takes over what gossip has done since.

        Called after the optimizer's step by itself. By hand in loops that call no single
        optimizer's `step`. Raises FloatingPointError where the script has made parameters that
        are not finite, and `NodeGone` when the node has been away for longer than `join` allowed.
        """
        self._check_process()
        if self._swapped:
            raise RuntimeError(
                "the model is the mean of all ranks for a while: no step may be taken"
            )
        self._since = 0
        if self._ended:
            return
        self._watch.check()
        if self.alone and not self._dial():
            return
        self._front.collect()
        try:
            flags = self._exchange_step(self.steps + 1)
        except NodeGone as gone:
            self._go_alone(gone)
            return
        _increment_version(self._trained)  # a graph that is still alive shall notice
        if flags & Flag.NOT_FINITE:
            raise FloatingPointError(
                "rank %d: parameters are not finite; where they are not, the rank keeps what it had"
                % self.rank
            )

    def _before(self, *_: object) -> None:
        self._check_process()
        if self._swapped:
            raise RuntimeError(
                "the model is the mean of all ranks for a while: no step may be taken"
            )

    def _after(self, *_: object) -> None:
        self._since += 1
        if self._since >= self._every:
            self.step()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError(
                "this process was forked from the script of rank %d: it has no rank" % self.rank
            )

    def _exchange_step(self, number: int) -> int:
        """STEP: hands the front over and has it back. The flags of the answer."""
        try:
            answer = self._node.ask(Record(kind=Kind.STEP, number=number, value=self.loss))
            self._note(answer, Kind.FRONT)
            self._front.show()
        except (NodeGone, Refused):
            raise
        except BaseException:  # Ctrl+C: the front is the script's again only after the answer
            try:
                late = self._node.settle(INTERRUPT_S)
                if late is not None:
                    self._note(late, Kind.FRONT)
                self._front.show()
            except NodeGone as gone:
                self._go_alone(gone)
            raise
        self.node_seconds = answer.value
        self.stopped = bool(answer.flags & Flag.END)
        return answer.flags

    def _note(self, answer: Record, wanted: Kind) -> None:
        if answer.kind != wanted:
            raise NodeGone("%s answers what was not asked" % self._path)
        self.ranks, self.steps = answer.ranks, answer.number
        self.run_steps, self.exchanges = answer.run_steps, answer.exchanges

    # Coming and going.

    def _enter(self, wanted: int) -> bool:
        """Takes a seat. Whether the rank had parameters, which are the model's now."""
        node = Connection(self._path)
        front = None
        try:
            text = self._layout.text(self._run)
            answer = node.ask(Record(kind=Kind.JOIN, rank=wanted, size=len(text)), text)
            front = Front(self._layout, node.take_descriptor())
            self._node, self._front = node, front
            self._finalizer = weakref.finalize(self, front.release)
            self._finalizer.atexit = False
            self._note(answer, Kind.WELCOME)
            self.rank = answer.rank
            resumed = bool(answer.flags & Flag.RESUMED)
            if resumed:
                front.take_over()
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
        warnings.warn(
            "rank %d: the node is gone (%s); the script trains on alone" % (self.rank, why),
            stacklevel=2,
        )

    def _dial(self) -> bool:
        """Looks for the node again, once in a while. Whether a STEP can be made: never at once, for
        the rank's parameters have just taken the place of the script's, or the other way round."""
        now = time.monotonic()
        if now < self._dial_at or self._lost_at is None or self.stopped:
            return False
        self._dial_at = now + DIAL_S
        try:
            resumed = self._enter(ANY_RANK)
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
            stacklevel=2,
        )
        return False

    def close(self) -> None:
        """Leaves the rank, which goes on gossiping. The model has memory of its own again."""
        if os.getpid() != self._pid or self._closed:
            return
        self._closed = True
        self._unhook()
        self._front.release()
        if not self.alone:
            with contextlib.suppress(NodeGone, Refused):
                self._node.ask(Record(kind=Kind.LEAVE))
        self._release()
        _ranks.discard(self)

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

    def _unhook(self) -> None:
        self._ended = True
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _forked(self) -> None:
        """In a child of a fork. An inherited socket would hide the script's death from the node."""
        self._node.close()
        self._front.make_private()

    # Data, means, blobs.

    def sampler(self, dataset: Sized, seed: int = 0) -> Sampler:
        """This rank's share of a data set, for `DataLoader(dataset, sampler=...)`."""
        return Sampler(self, len(dataset), seed)

    def mean_state_dict(self) -> Dict[str, Any]:
        """The mean over all live ranks of what is trained and of the float buffers: fresh memory.

        Every key of `model.state_dict()`; what is not joined is this model's. While the node is
        gone: this model's values.
        """
        return self._state_dict(self._mean(Record(kind=Kind.MEAN)))

    @contextlib.contextmanager
    def mean(self) -> Iterator[torch.nn.Module]:
        """The model as the mean of all ranks, for a while: to evaluate, never to step."""
        means = self._mean(Record(kind=Kind.MEAN))
        tensors = [t for joined in self._layout.tensors for t in (joined.tensor, *joined.twins)]
        mine = [tensor.data for tensor in tensors]
        self._swapped = True
        try:
            for tensor in tensors:
                if id(tensor) in means:
                    tensor.data = means[id(tensor)].to(tensor.device, tensor.dtype)
            yield self.model
        finally:
            for tensor, own in zip(tensors, mine):
                tensor.data = own
            self._swapped = False

    def finish(self, timeout: Optional[float] = None) -> Dict[str, Any]:
        """No more steps. Waits until the other ranks have done theirs: the mean of all.

        After `timeout` seconds, or at Ctrl+C, it is the mean of now. The rank gossips on until
        `close`.
        """
        self._check_process()
        if self._since and not self._ended:
            self.step()
        self._unhook()
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            means = self._mean(Record(kind=Kind.FINISH), deadline)
        except (KeyboardInterrupt, Overdue):
            self._sit_again()
            means = self._mean(Record(kind=Kind.MEAN))
        return self._state_dict(means)

    def keep(self, what: object) -> bool:
        """Leaves an object with the rank, for the script that comes after this one.

        Whatever `torch.save` writes and `torch.load(weights_only=True)` reads; the optimizer's
        state, say. False while the node is gone.
        """
        self._check_process()
        if self.alone:
            return False
        data = io.BytesIO()
        torch.save(what, data)
        blob = os.memfd_create("kept", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            with open(blob, "wb", closefd=False) as file:
                file.write(data.getbuffer())
            fcntl.fcntl(blob, _F_ADD_SEALS, _SEALS)
            question = Record(kind=Kind.KEEP, number=self.steps, size=len(data.getbuffer()))
            self._node.ask(question, descriptor=blob)
        except NodeGone as gone:
            self._go_alone(gone)
            return False
        finally:
            os.close(blob)
        return True

    def kept(self) -> Any:
        """What a script has left with this rank, or None; `kept_steps` is the rank's step then."""
        self._check_process()
        if self.alone:
            return None
        answer = self._node.ask(Record(kind=Kind.KEPT))
        if not answer.size:
            return None
        data = io.BytesIO()
        descriptor = self._node.take_descriptor()
        try:  # by place, for the node reads through the same descriptor's position
            while len(more := os.pread(descriptor, answer.size - data.tell(), data.tell())) > 0:
                data.write(more)
        finally:
            os.close(descriptor)
        data.seek(0)
        self.kept_steps = answer.number
        return torch.load(data, weights_only=True)

    def checkpoint(self) -> Optional[str]:
        """Has the node write its ranks down, with what scripts have left by `keep`; as it does now
        and then by itself. The checkpoint's folder, as the node calls it; None while it is gone.

        Raises RuntimeError with the reason where none is written: the node has no run directory,
        the disk is full.
        """
        self._check_process()
        if self.alone:
            return None
        try:
            answer = self._node.ask(Record(kind=Kind.CHECKPOINT))
        except NodeGone as gone:
            self._go_alone(gone)
            return None
        if answer.flags & Flag.NOT_SAVED:
            raise RuntimeError(self._node.text)
        return self._node.text[len("checkpoint ") :]

    def _mean(self, question: Record, deadline: Optional[float] = None) -> Dict[int, torch.Tensor]:
        """The mean of each joined tensor, by its identity; empty while the node is gone."""
        self._check_process()
        if self.alone:
            return {}
        tensors = self._layout.tensors
        try:
            self._node.ask(question, deadline=deadline)
            descriptor = self._node.take_descriptor()
        except NodeGone as gone:
            self._go_alone(gone)
            return {}
        try:
            memory = mmap.mmap(descriptor, max(1, bytes_of(tensors)), mmap.MAP_PRIVATE)
        finally:
            os.close(descriptor)
        means = {}
        for joined, view in zip(tensors, views_of(memory, tensors)):
            means[id(joined.tensor)] = view
            for twin in joined.twins:
                means[id(twin)] = view.as_strided(twin.shape, twin.stride())
        return means

    def _state_dict(self, means: Dict[int, torch.Tensor]) -> Dict[str, Any]:
        state = self.model.state_dict(keep_vars=True)
        for name, value in state.items():
            if id(value) in means:
                state[name] = means[id(value)].to(value.device, value.dtype)
            elif isinstance(value, torch.Tensor):
                state[name] = value.detach().clone()
        return state


_F_ADD_SEALS = 1033
_SEALS = 0x1 | 0x2 | 0x4 | 0x8  # of a memfd: sealing, shrinking, growing, writing


def _innermost(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer within what a trainer framework has wrapped around it."""
    within = getattr(optimizer, "optimizer", None)
    while isinstance(within, torch.optim.Optimizer) and within is not optimizer:
        optimizer, within = within, getattr(within, "optimizer", None)
    return optimizer


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


def _after_fork_in_child() -> None:
    for rank in list(_ranks):
        rank._forked()


os.register_at_fork(after_in_child=_after_fork_in_child)
