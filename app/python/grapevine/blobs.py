"""Objects that a script stores with its rank. Each is read back before it is sent."""

from __future__ import annotations

import fcntl
import io
import os
import re
from typing import Any

import torch

_F_ADD_SEALS = 1033
_SEALS = 0x1 | 0x2 | 0x4 | 0x8  # of a memfd: sealing, shrinking, growing, writing
_NOEXEC_SEAL = 0x8  # known from Linux 6.3 on, and required if vm.memfd_noexec is 2


def written(what: object) -> memoryview:
    """The object as `torch.save` writes it. Raises ValueError if it could not be read again."""
    if isinstance(what, (torch.optim.Optimizer, torch.nn.Module)):
        raise ValueError(
            "keep is given a %s, accepted: its state_dict() instead" % type(what).__name__
        )
    data = io.BytesIO()
    try:
        torch.save(what, data)
    except Exception as error:
        raise ValueError(
            "the object cannot be written: %s" % _in_a_line(error)
        ) from None
    try:
        read(io.BytesIO(data.getbuffer()))
    except Exception as error:
        strange = re.search(r"GLOBAL (\S+)", str(error))
        said = re.search(r"WeightsUnpickler error:\s*(.+)", str(error))  # below advice of torch's
        why = said.group(1) if said else _in_a_line(error)
        if strange:
            why = "it has a %s" % strange.group(1)
        raise ValueError(
            "the object could not be read again: %s, accepted: tensors, numbers, texts, "
            "and lists, tuples, sets and dicts of them" % why
        ) from None
    return data.getbuffer()


def read(data: io.BytesIO) -> Any:
    """The object that was written. A blob is data: reading calls nothing in it. If this process has
    no GPU, tensors that were on one are read to the CPU."""
    where = None if torch.cuda.is_available() else "cpu"
    return torch.load(data, weights_only=True, map_location=where)


def in_memory(data: memoryview) -> int:
    """A descriptor of sealed memory that holds the data. The caller closes it."""
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        blob = os.memfd_create("kept", flags | _NOEXEC_SEAL)
    except OSError:
        blob = os.memfd_create("kept", flags)
    try:
        with open(blob, "wb", closefd=False) as file:
            file.write(data)
        fcntl.fcntl(blob, _F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(blob)
        raise
    return blob


def of_descriptor(descriptor: int, size: int) -> io.BytesIO:
    """The bytes of a descriptor, which is closed. `pread`: the node shares its file position."""
    data = io.BytesIO()
    try:
        while len(more := os.pread(descriptor, size - data.tell(), data.tell())) > 0:
            data.write(more)
    finally:
        os.close(descriptor)
    data.seek(0)
    return data


def _in_a_line(error: BaseException) -> str:
    return "%s: %s" % (type(error).__name__, str(error).strip().split("\n")[0][:200])
