"""What a script has measured: numbers under names, as text of a line each for its node."""

from __future__ import annotations

import math
import re
from typing import Any, Collection, Mapping

import torch

_MOST_NAMES = 8  # of a rank


def text_of(measured: Mapping[str, Any], names: Collection[str]) -> bytes:
    """`names`: all of the rank. Raises ValueError, one line, for what nobody could show."""
    if not measured or len(names) > _MOST_NAMES:
        raise ValueError(
            "report of %d names, %d with the earlier ones, accepted: 1 to %d in all"
            % (len(measured), len(names), _MOST_NAMES)
        )
    return "".join("%s %r\n" % (name, _finite(name, measured[name])) for name in measured).encode()


def number(value: Any) -> float:
    """Of a number, or of a tensor that is one. Raises ValueError for anything else."""
    try:
        return float(value.detach() if isinstance(value, torch.Tensor) else value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise ValueError("%.60r is not a number" % (value,)) from None


def _finite(name: str, value: Any) -> float:
    if not re.fullmatch("[a-z0-9_]{1,32}", name):
        raise ValueError(
            "report of %.60r, accepted: names of 1 to 32 characters a to z, 0 to 9 and _" % name
        )
    try:
        finite = number(value)
    except ValueError:
        finite = math.nan
    if not math.isfinite(finite):
        raise ValueError("report of %s is %.60r, accepted: a finite number" % (name, value))
    return finite
