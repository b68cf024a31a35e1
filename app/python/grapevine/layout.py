"""Which tensors of a model are joined, under which names, and which models cannot be.

*Trained* are the parameters in the optimizer's groups, in the model's order: they gossip. *Aside*
are the model's float buffers (statistics of batch norm): they stay the script's own and are
averaged for means, those of fp64 in fp64. Integers stay local, and so do buffers whose elements
have no memory of their own (sparse, expanded). Frozen parameters outside the optimizer are not
joined.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple, Union

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
    dtype: torch.dtype = torch.float32  # in the memory which is shared with the node

    def __post_init__(self) -> None:
        if self.tensor.dtype == torch.float64:
            self.dtype = torch.float64


@dataclass
class Tied:
    """Another name of a joined tensor, as a view of it: sizes and strides, in elements."""

    name: str
    of: Joined
    sizes: Sequence[int]
    strides: Sequence[int]


@dataclass
class Layout:
    """What is joined: the trained tensors first, then those aside, of which fp64 come last."""

    tensors: List[Joined]
    trained: int  # how many of `tensors`
    tied: List[Tied] = field(default_factory=list)

    def parameters(self) -> List[Joined]:
        """The trained tensors."""
        return self.tensors[: self.trained]

    def text(self, run: str, outer: Optional[Tuple[float, float]] = None) -> bytes:
        """The text of a JOIN: the run's name, the rate and momentum of its outer optimizer, and a
        line for each tensor and for each other name of one."""
        lines = [run] if outer is None else [run, "outer %r %r" % outer]
        for at, joined in enumerate(self.tensors):
            aside = "aside64" if joined.dtype == torch.float64 else "aside"
            words = ["trained" if at < self.trained else aside, joined.name]
            lines.append(" ".join(words + [str(size) for size in joined.tensor.shape]))
        for tied in self.tied:
            sides = ["%d:%d" % side for side in zip(tied.sizes, tied.strides)]
            lines.append(" ".join(["tied", tied.name, tied.of.name, *sides]))
        return "".join(line + "\n" for line in lines).encode()

    def spans(self) -> List[Tuple[int, int]]:
        """Where each tensor lies in the shared memory: its first byte, and the first after it."""
        spans = []
        end = 0
        for joined in self.tensors:
            size = joined.dtype.itemsize
            begin = -(-end // size) * size
            end = begin + size * joined.tensor.numel()
            spans.append((begin, end))
        return spans

    def bytes(self) -> int:
        """The size of that memory."""
        return self.spans()[-1][1]

    def follow_buffers(self) -> bool:
        """Joins the buffers that have replaced joined ones in the model. Whether there are any."""
        changed = False
        for joined in self.tensors[self.trained :]:
            now = joined.slots.get(joined.key)
            if now is not joined.tensor and now is not None and now.shape == joined.tensor.shape:
                joined.tensor, changed = now, True
        return changed


def layout_of(model: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> Layout:
    """What joins. Raises ValueError, one line, for what cannot: sharded models, fp64, complex.

    Without optimizers, every parameter that requires a gradient is trained.
    """
    _refuse_sharded(model)
    wanted = {id(p) for p in stepped_by(optimizers)}
    if not optimizers:
        wanted = {id(p) for p in model.parameters() if p.requires_grad}
    layout = Layout([], 0)
    seen: Dict[int, Joined] = {}
    alike: Dict[Tuple[object, ...], Joined] = {}
    for name, slots, key, parameter in held_by(model, "_parameters"):
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
    for name, slots, key, buffer in held_by(model, "_buffers"):
        if name in kept and buffer.is_floating_point() and _has_own_memory(buffer):
            _add(layout, seen, alike, Joined(name, buffer, slots, key))
    layout.tensors.sort(key=lambda joined: joined.dtype == torch.float64)
    _refuse_overlaps(layout)
    _find_other_names(layout, model, kept, seen)
    _name_plainly(layout)
    return layout


def stepped_by(optimizers: Sequence[torch.optim.Optimizer]) -> Iterator[torch.Tensor]:
    """Every parameter in the groups of the optimizers."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            yield from group["params"]


def held_by(model: torch.nn.Module, kind: str) -> Iterator[Tuple[str, Slots, str, torch.Tensor]]:
    """Every parameter or buffer: its name, the dict and the key that hold it, and the tensor; in
    the order of `named_parameters`."""
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
    """Adds a tensor; as a twin, if its memory is joined already."""
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


def _find_other_names(
    layout: Layout, model: torch.nn.Module, kept: Set[str], seen: Dict[int, Joined]
) -> None:
    """Adds the further names that joined tensors have in a file."""
    everywhere: List[Tuple[str, torch.Tensor]] = list(
        model.named_parameters(remove_duplicate=False)
    )
    everywhere += [
        (name, buffer)
        for name, buffer in model.named_buffers(remove_duplicate=False)
        if name in kept
    ]
    for name, tensor in everywhere:
        joined = seen.get(id(tensor))
        if joined is None or name == joined.name:
            continue
        strides = _strides_within(joined.tensor, tensor)
        if strides is not None:
            layout.tied.append(Tied(name, joined, tensor.shape, strides))


def _strides_within(whole: torch.Tensor, twin: torch.Tensor) -> Optional[List[int]]:
    """The strides of `twin` as a view of `whole`, once `whole` is contiguous. None: no view."""
    if whole.is_contiguous():
        return list(twin.stride())
    packed = torch.empty(whole.shape, device="meta").stride()
    same = dict(zip(zip(whole.shape, whole.stride()), packed))
    strides = [
        1 if side[0] == 1 else same.get(side, 0) for side in zip(twin.shape, twin.stride())
    ]
    return strides if all(strides) else None


def _name_plainly(layout: Layout) -> None:
    """Cuts off what wrappers add to names: `module.` of DDP, `_orig_mod.` of torch.compile."""
    named: List[Union[Joined, Tied]] = [*layout.tensors, *layout.tied]
    for one in named:
        parts = [part for part in one.name.split(".") if part != "_orig_mod"]
        one.name = ".".join(parts)
    while all(one.name.startswith("module.") for one in named):
        for one in named:
            one.name = one.name[len("module.") :]
    for one in named:
        if len(one.name.split()) != 1:
            raise ValueError("%r: a name with white space cannot be joined" % one.name)
    known = {joined.name for joined in layout.tensors}
    others: Dict[str, Tied] = {}
    for tied in layout.tied:
        if tied.name not in known:
            others.setdefault(tied.name, tied)
    layout.tied = list(others.values())


def _refuse_type(name: str, parameter: torch.Tensor) -> None:
    if isinstance(parameter, torch.nn.parameter.UninitializedParameter):
        raise ValueError("%s has no shape yet: run the model once, then join" % name)
    if parameter.dtype not in TRAINABLE:
        accepted = "accepted: float32, bfloat16, float16"
        raise ValueError("%s is %s, %s" % (name, str(parameter.dtype)[len("torch.") :], accepted))
    if not _is_plain(parameter):
        raise ValueError("%s has no memory of its own on a device: it cannot be joined" % name)
    if _overlaps_itself(parameter):
        raise ValueError("%s has elements that share their memory (expand?): refused" % name)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether it is in memory, at one address for each of its elements."""
    return not (
        tensor.device.type == "meta" or tensor.layout != torch.strided or tensor.is_nested
    )


def _has_own_memory(tensor: torch.Tensor) -> bool:
    return _is_plain(tensor) and not _overlaps_itself(tensor)


def _refuse_sharded(model: torch.nn.Module) -> None:
    """With FSDP, tensor parallelism and DeepSpeed a process has only a part of a parameter."""
    sharded = {"FullyShardedDataParallel", "FSDPModule"}
    for module in model.modules():
        if sharded & {kind.__name__ for kind in type(module).__mro__}:
            raise ValueError("a model sharded by FSDP cannot join: a rank has whole parameters")
    for name, parameter in model.named_parameters():
        if hasattr(parameter, "ds_id") or hasattr(parameter, "placements"):
            raise ValueError("%s is sharded and cannot join: a rank has whole parameters" % name)


def _refuse_overlaps(layout: Layout) -> None:
    """Tensors that share a part of their memory would not share it as views of the front."""
    here = [j for j in layout.tensors if j.tensor.numel() and j.tensor.device.type == "cpu"]
    extents = sorted((*_extent(joined.tensor), joined.name) for joined in here)
    for (_, end, one), (start, _, other) in zip(extents, extents[1:]):
        if start < end:
            raise ValueError("%s and %s share a part of their memory: refused" % (one, other))


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    begin, end = _extent(tensor)
    room = (end - begin) // max(1, tensor.element_size())
    return tensor.numel() > 1 and room < tensor.numel()


def _extent(tensor: torch.Tensor) -> Tuple[int, int]:
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()
