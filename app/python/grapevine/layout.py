"""Which tensors of a model are joined, under which names, and which models cannot be.

*Trained* are the parameters in the optimizer's groups, in the model's order: they gossip. *Aside*
are the model's float buffers (statistics of batch norm): they stay the script's own and are
averaged for means. Integers stay local. Frozen parameters outside the optimizer are not joined.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import torch

TRAINABLE = (torch.float32, torch.bfloat16, torch.float16)
Slots = Dict[str, Optional[torch.Tensor]]  # a module's own parameters or buffers, by name


@dataclass
class Joined:
    """One tensor that is joined. `twins` are other tensors on the same memory (tied by storage)."""

    name: str
    tensor: torch.Tensor
    slots: Slots  # where the model holds it, under `key`
    key: str
    twins: List[torch.Tensor] = field(default_factory=list)


@dataclass
class Layout:
    """What is joined, the trained tensors first."""

    tensors: List[Joined]
    trained: int  # how many of `tensors`

    def text(self, run: str) -> bytes:
        """What `join` says: the run's name, then a line a tensor."""
        lines = [run]
        for at, joined in enumerate(self.tensors):
            words = ["trained" if at < self.trained else "aside", joined.name]
            lines.append(" ".join(words + [str(size) for size in joined.tensor.shape]))
        return "".join(line + "\n" for line in lines).encode()

    def follow_buffers(self) -> bool:
        """Whether the model holds other buffers than before; they are joined from now on."""
        changed = False
        for joined in self.tensors[self.trained :]:
            now = joined.slots.get(joined.key)
            if now is not joined.tensor and now is not None and now.shape == joined.tensor.shape:
                joined.tensor, changed = now, True
        return changed


class Watch:
    """Notices when model or optimizers no longer hold the parameters that were joined."""

    def __init__(
        self, model: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer], layout: Layout
    ) -> None:
        self._optimizers = list(optimizers)
        self._stepped = list(_stepped(optimizers))
        joined = {id(t) for j in layout.tensors for t in (j.tensor, *j.twins)}
        held = [entry for entry in _held(model, "_parameters") if id(entry[3]) in joined]
        self._slots = [slots for _, slots, _, _ in held]
        self._keys = [key for _, _, key, _ in held]
        self._parameters = [parameter for _, _, _, parameter in held]

    def check(self) -> None:
        """Raises ValueError where they do not."""
        now = list(_stepped(self._optimizers))
        if len(now) != len(self._stepped) or any(map(operator.is_not, now, self._stepped)):
            raise ValueError(
                "the optimizer's parameters have changed: close the rank and join again"
            )
        try:
            there = map(operator.getitem, self._slots, self._keys)
            same = not any(map(operator.is_not, there, self._parameters))
        except KeyError:
            same = False
        if not same:
            raise ValueError(
                "the model's parameters are other objects than those that the optimizer steps "
                "(load_state_dict with assign=True?): make the optimizer anew and join again"
            )


def layout_of(model: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> Layout:
    """What joins. Raises ValueError, one line, for what cannot: sharded models, fp64, complex.

    Without optimizers it is every parameter that asks for a gradient.
    """
    _refuse_sharded(model)
    wanted = {id(p) for p in _stepped(optimizers)}
    if not optimizers:
        wanted = {id(p) for p in model.parameters() if p.requires_grad}
    layout = Layout([], 0)
    seen: Dict[int, Joined] = {}
    alike: Dict[Tuple[object, ...], Joined] = {}
    for name, slots, key, parameter in _held(model, "_parameters"):
        if id(parameter) in wanted:
            _refuse_type(name, parameter)
            _add(layout, seen, alike, Joined(name, parameter, slots, key))
    layout.trained = len(layout.tensors)
    strangers = len(wanted - set(seen))
    if strangers:
        raise ValueError("%d of the optimizer's parameters are not the model's" % strangers)
    if not layout.trained:
        raise ValueError("there is nothing to train: no parameter of the model is in the optimizer")
    kept = set(model.state_dict(keep_vars=True))
    for name, slots, key, buffer in _held(model, "_buffers"):
        if buffer.is_floating_point() and name in kept:
            _add(layout, seen, alike, Joined(name, buffer, slots, key))
    _refuse_overlaps(layout)
    _name_plainly(layout)
    return layout


def _stepped(optimizers: Sequence[torch.optim.Optimizer]) -> Iterator[torch.Tensor]:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            yield from group["params"]


def _held(model: torch.nn.Module, kind: str) -> Iterator[Tuple[str, Slots, str, torch.Tensor]]:
    """Every parameter or buffer with where it is held, in the order of `named_parameters`."""
    for prefix, module in model.named_modules():
        slots: Slots = getattr(module, kind)
        for key, tensor in slots.items():
            if tensor is not None:
                yield (prefix + "." if prefix else "") + key, slots, key, tensor


def _add(
    layout: Layout,
    seen: Dict[int, Joined],
    alike: Dict[Tuple[object, ...], Joined],
    joined: Joined,
) -> None:
    """One more tensor, unless it, or its memory, is joined already."""
    tensor = joined.tensor
    if id(tensor) in seen:
        return
    memory: Tuple[object, ...] = (tensor.data_ptr(), tensor.numel(), tensor.dtype)
    if tensor.numel() and memory in alike:
        seen[id(tensor)] = alike[memory]
        alike[memory].twins.append(tensor)
        return
    seen[id(tensor)] = alike[memory] = joined
    layout.tensors.append(joined)


def _name_plainly(layout: Layout) -> None:
    """Cuts off what wrappers put before names: `module.` of DDP, `_orig_mod.` of torch.compile."""
    for joined in layout.tensors:
        parts = [part for part in joined.name.split(".") if part != "_orig_mod"]
        joined.name = ".".join(parts)
    while all(joined.name.startswith("module.") for joined in layout.tensors):
        for joined in layout.tensors:
            joined.name = joined.name[len("module.") :]
    for joined in layout.tensors:
        if len(joined.name.split()) != 1:
            raise ValueError("%r: a name with white space cannot be joined" % joined.name)


def _refuse_type(name: str, parameter: torch.Tensor) -> None:
    if isinstance(parameter, torch.nn.parameter.UninitializedParameter):
        raise ValueError("%s has no shape yet: run the model once, then join" % name)
    if parameter.dtype not in TRAINABLE:
        accepted = "accepted: float32, bfloat16, float16"
        raise ValueError("%s is %s, %s" % (name, str(parameter.dtype)[len("torch.") :], accepted))
    if parameter.device.type == "meta" or parameter.layout != torch.strided:
        raise ValueError("%s has no memory of its own on a device: it cannot be joined" % name)


def _refuse_sharded(model: torch.nn.Module) -> None:
    """FSDP, tensor parallelism and DeepSpeed leave a process a part of a parameter."""
    sharded = {"FullyShardedDataParallel", "FSDPModule"}
    for module in model.modules():
        if sharded & {kind.__name__ for kind in type(module).__mro__}:
            raise ValueError("a model sharded by FSDP cannot join: a rank has whole parameters")
    for name, parameter in model.named_parameters():
        if hasattr(parameter, "ds_id") or hasattr(parameter, "placements"):
            raise ValueError("%s is sharded and cannot join: a rank has whole parameters" % name)


def _refuse_overlaps(layout: Layout) -> None:
    """Tensors that share a part of their memory would come apart as views of their own."""
    here = [j for j in layout.tensors if j.tensor.numel() and j.tensor.device.type == "cpu"]
    extents = sorted((*_extent(joined.tensor), joined.name) for joined in here)
    for (_, end, one), (start, _, other) in zip(extents, extents[1:]):
        if start < end:
            raise ValueError("%s and %s share a part of their memory: refused" % (one, other))


def _extent(tensor: torch.Tensor) -> Tuple[int, int]:
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()
