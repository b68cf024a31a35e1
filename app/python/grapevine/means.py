"""A mean in the form of a model: put into the model for a while, or as its state_dict.

Only the model knows its state_dict: hooks copy and rename, tied tensors have other strides. So the
mean is put into the model, the model is asked for its state_dict, and its own values are put back.
If another thread trains the model meanwhile, the model must stay as it is. Then the tensors of its
state_dict are recognised by identity, and a state_dict with tensors made anew is refused.
"""

from __future__ import annotations

import contextlib
import copy
import mmap
import os
import uuid
from typing import Any, Dict, Iterator, List, Tuple, Union

import torch

from .front import views_of
from .layout import Layout

Values = List[Tuple[torch.Tensor, torch.Tensor]]  # a tensor of the model, and the mean of it


class Mean:
    """The mean of each joined tensor, as the node has sent it, in private memory."""

    def __init__(self, layout: Layout, descriptor: int, ranks: int) -> None:
        self.ranks = ranks
        self._layout = layout
        self._memory = mmap.mmap(descriptor, max(1, layout.bytes()), mmap.MAP_PRIVATE)

    def values(self) -> Values:
        """The mean for each tensor of the model: with its device, type and strides, tied alike."""
        values: Values = []
        with torch.no_grad():
            for joined, view in zip(self._layout.tensors, views_of(self._memory, self._layout)):
                mean = torch.empty_strided(
                    joined.tensor.shape,
                    joined.tensor.stride(),
                    dtype=joined.tensor.dtype,
                    device=joined.tensor.device,
                )
                values.append((joined.tensor, mean.copy_(view)))
                for twin in joined.twins:
                    values.append((twin, mean.as_strided(twin.shape, twin.stride())))
        return values


@contextlib.contextmanager
def put_into_model(mean: Mean) -> Iterator[None]:
    """Within the `with`, the model's tensors are the mean."""
    values = mean.values()
    own = [tensor.data for tensor, _ in values]
    try:
        for tensor, value in values:
            tensor.data = value
        yield
    finally:
        for (tensor, _), data in zip(values, own):
            tensor.data = data


@torch.inference_mode(False)  # what is made within it can be given to no parameter later
def state_dict_of(model: torch.nn.Module, mean: Mean) -> Dict[str, Any]:
    """`model.state_dict()` with the values of the mean, in memory of its own."""
    with put_into_model(mean):
        return _copied(model.state_dict())


@torch.inference_mode(False)
def state_dict_beside(model: torch.nn.Module, mean: Mean) -> Dict[str, Any]:
    """The same without a change of the model, which another thread uses.

    Raises RuntimeError if the model's state_dict has other tensors than the model.
    """
    means = {id(tensor): value for tensor, value in mean.values()}
    known = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    state = model.state_dict(keep_vars=True)
    for name, value in state.items():
        if id(value) in means:
            state[name] = means[id(value)]
        elif isinstance(value, torch.Tensor) and id(value) not in known:
            raise RuntimeError(
                "%s in this model's state_dict is new at each call: ask for the mean in the thread "
                "that trains it" % name
            )
    return _copied(state)


def writable(path: Union[str, os.PathLike[str]]) -> str:
    """The path for `save`. Raises ValueError, one line, if no file can be written there."""
    try:
        name = os.fsdecode(path)
    except TypeError:
        raise ValueError(
            "path is a %s, accepted: the path of a file" % type(path).__name__
        ) from None
    is_other = os.path.exists(name) and not os.path.isfile(name)  # a folder, a device
    if not os.path.basename(name) or is_other:
        accepted = "the path of a file, not of a folder or device"
        raise ValueError("path is %r, accepted: %s" % (name, accepted))
    part = _part_of(name)
    try:
        with open(part, "xb"):
            os.unlink(part)
    except OSError as error:
        raise ValueError("%s cannot be written: %s" % (name, error.strerror)) from None
    return name


def save(state: Dict[str, Any], path: str) -> None:
    """Writes a file, which is replaced whole: no reader finds a part of it."""
    part = _part_of(path)
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


def _part_of(path: str) -> str:
    return "%s.%s.part" % (path, uuid.uuid4().hex)


def _copied(state: Dict[str, Any]) -> Dict[str, Any]:
    """Copies all values, so that none is the model's memory. Tied tensors stay tied."""
    copies: Dict[Tuple[object, ...], torch.Tensor] = {}
    for name, value in state.items():
        if not isinstance(value, torch.Tensor):
            state[name] = copy.deepcopy(value)
        elif (
            value.layout != torch.strided
            or value.is_nested
            or type(value) not in (torch.Tensor, torch.nn.Parameter)
            or not value.numel()
        ):
            state[name] = value.detach().clone()
        else:
            key = (value.data_ptr(), value.dtype, value.device, value.shape, value.stride())
            if key not in copies:
                copies[key] = value.detach().clone()
            state[name] = copies[key]
    return state
