"""The front: shared memory that holds the parameters as the script sees them.

Between two STEPs only the script touches it, so it needs no lock. Contiguous fp32 parameters on the
CPU *are* views of it, each with a storage of its own. Others (bf16, fp16, channels-last, GPU) are
copied in before a STEP and out after it. For a parameter of low precision, its change since the
last STEP is added to the front, so that the rank's fp32 values keep the digits that rounding hides.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import List, Optional

import torch

from .layout import Joined, Layout

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
)
_MAP_FIXED = 0x10
_AGAIN = "close the rank and join again"


def views_of(memory: mmap.mmap, layout: Layout) -> List[torch.Tensor]:
    """A view for each joined tensor, in order, each with a storage of its own.

    A view of a contiguous tensor has exactly its strides: torch chooses kernels by them, even by
    those of dimensions of size 1.
    """
    views = []
    for joined, (offset, _) in zip(layout.tensors, layout.spans()):
        tensor = joined.tensor
        view = torch.empty(tensor.shape, dtype=joined.dtype)
        if tensor.numel():
            flat = torch.frombuffer(
                memory, dtype=joined.dtype, count=tensor.numel(), offset=offset
            )
            view = flat.view(tensor.shape)
            if tensor.is_contiguous():
                view = flat.as_strided(tensor.shape, tensor.stride())
        views.append(view)
    return views


class Front:
    """The shared memory of a rank, and the tensors of the model that lie in it or are copied.

    Owns the descriptor. `release` gives the model memory of its own again.
    """

    def __init__(self, layout: Layout, descriptor: int) -> None:
        self._layout = layout
        self._tensors = layout.tensors
        self._trained = layout.trained
        self._descriptor = descriptor
        size = layout.bytes()
        if os.fstat(descriptor).st_size < size:
            raise ValueError("the node's memory is smaller than the parameters")
        self._map = mmap.mmap(descriptor, max(size, 1))
        self._views = views_of(self._map, layout)
        self._in_place = [_can_be_view(joined) for joined in layout.tensors]
        # The tensors in place, whose addresses are compared at each STEP. For the others: the
        # values that the last STEP gave them, if those were rounded.
        self._here = [t for t, here in zip(self._tensors, self._in_place) if here]
        self._addresses = [v.data_ptr() for v, here in zip(self._views, self._in_place) if here]
        self._bound: List[torch.Tensor] = [joined.tensor for joined in self._here]
        self._shown: List[Optional[torch.Tensor]] = [None] * len(self._tensors)
        self._away = [at for at, here in enumerate(self._in_place) if not here]
        self._released = False

    def fill(self) -> None:
        """Copies the model into the front: the starting point of the rank."""
        with torch.no_grad():
            for joined, view in zip(self._tensors, self._views):
                view.copy_(joined.tensor.data)
        self._attach()

    def take_over(self, aside: bool) -> None:
        """Copies the front into the model; without `aside`, the model keeps its own buffers."""
        with torch.no_grad():
            for at, (joined, view) in enumerate(zip(self._tensors, self._views)):
                if aside or at < self._trained:
                    joined.tensor.data.copy_(view)
                else:
                    view.copy_(joined.tensor.data)
        self._attach()

    def collect(self) -> None:
        """Before a STEP: brings the model's values into the front."""
        if self._layout.follow_buffers():
            self._bound = [joined.tensor for joined in self._here]
        if [t.data_ptr() for t in self._bound] != self._addresses:
            self._put_back()
        for at in self._away:
            tensor, view, shown = self._tensors[at].tensor.data, self._views[at], self._shown[at]
            if shown is None:
                view.copy_(tensor)
            else:
                view.add_((tensor.float() - shown.float()).to(view.device))

    def show(self) -> None:
        """After a STEP: brings the front's values into the model."""
        for at in self._away:
            if at < self._trained:
                self._tensors[at].tensor.data.copy_(self._views[at])
                self._note(at)

    def invalidate_graphs(self) -> None:
        """The backward pass of a graph that was made before raises: its parameters have changed."""
        _increment_versions([joined.tensor for joined in self._layout.parameters()])

    def has_moved(self) -> bool:
        """Whether a parameter outside the front has changed since the last STEP: it is a copy, or
        the script has given it other memory. The node sees changes of the front itself."""
        self._view_again()
        trained = list(zip(self._tensors, self._views, self._shown))[: self._trained]
        for at, (joined, view, shown) in enumerate(trained):
            tensor = joined.tensor.data
            if self._in_place[at] and tensor.data_ptr() == view.data_ptr():
                continue
            was = view if shown is None else shown
            if not torch.equal(tensor.to(was.device, was.dtype), was):
                return True
        return False

    def release(self) -> None:
        """Gives the model memory of its own. No tensor of it lies in the front any more."""
        if self._released:
            return
        self._released = True
        self.part()
        os.close(self._descriptor)

    def part(self) -> None:
        """Gives memory of its own to what still lies in the front."""
        addresses = set(self._addresses)
        for joined in self._here:
            if joined.tensor.data_ptr() in addresses or not joined.tensor.numel():
                joined.tensor.data = joined.tensor.data.clone()
                _tie(joined)

    def make_private(self) -> None:
        """In a child of a fork: the memory keeps its address, and no write reaches the parent."""
        if self._released or not self._addresses:
            return
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        access, kind = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | _MAP_FIXED
        _libc.mmap(address, len(self._map), access, kind, self._descriptor, 0)

    def _attach(self) -> None:
        for joined, view, here in zip(self._tensors, self._views, self._in_place):
            if here:
                joined.tensor.data = view
                _tie(joined)
        for at in self._away:
            self._note(at)

    def _note(self, at: int) -> None:
        """Remembers the value that a STEP gave the script, if it was rounded."""
        tensor = self._tensors[at].tensor.data
        if tensor.dtype == torch.float32 or at >= self._trained:
            return
        shown = self._shown[at]
        if shown is None:
            self._shown[at] = tensor.clone()
        else:
            shown.copy_(tensor)

    def _view_again(self) -> None:
        """Makes a view anew whose storage is no more in the front. `share_memory` and a tensor's
        way to another process (a queue, an argument of it) move a storage, under all its tensors.
        """
        begin = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        in_place = [at for at, here in enumerate(self._in_place) if here]
        for at, address in zip(in_place, self._addresses):
            view = self._views[at]
            if view.data_ptr() != address:
                flat = torch.frombuffer(
                    self._map, dtype=view.dtype, count=view.numel(), offset=address - begin
                )
                self._views[at] = flat.as_strided(view.shape, view.stride())

    def _put_back(self) -> None:
        """Where the script has given tensors other memory: puts the views back, with the values in
        that memory."""
        self._view_again()
        views = [v for v, here in zip(self._views, self._in_place) if here]
        for joined, view, address in zip(self._here, views, self._addresses):
            tensor, moved = joined.tensor, joined.tensor.data_ptr()
            if moved == address:
                continue
            if (
                tensor.shape != view.shape
                or tensor.device.type != "cpu"
                or tensor.dtype != view.dtype
            ):
                raise ValueError(
                    "%s has changed its shape, type or device: %s" % (joined.name, _AGAIN)
                )
            if any(twin.data_ptr() not in (moved, address) for twin in joined.twins):
                raise ValueError("%s is no longer tied: %s" % (joined.name, _AGAIN))
            view.copy_(tensor.data)
            tensor.data = view
            _tie(joined)


def _can_be_view(joined: Joined) -> bool:
    tensor = joined.tensor
    return tensor.device.type == "cpu" and tensor.dtype == joined.dtype and tensor.is_contiguous()


def _tie(joined: Joined) -> None:
    for twin in joined.twins:
        twin.data = joined.tensor.data.as_strided(twin.shape, twin.stride())


def _takes_many() -> bool:
    """Whether torch increments the versions of many tensors in one call: from 2.5 on."""
    try:
        torch.autograd.graph.increment_version([torch.zeros(1)])
    except (RuntimeError, TypeError):
        return False
    return True


_TAKES_MANY = _takes_many()


def _increment_versions(tensors: List[torch.Tensor]) -> None:
    if _TAKES_MANY:
        torch.autograd.graph.increment_version(tensors)
        return
    for tensor in tensors:
        torch.autograd.graph.increment_version(tensor)
