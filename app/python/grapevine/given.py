"""Numbers that a caller gives: of Python, and of NumPy, which are no `int` and `float`."""

from __future__ import annotations

import math
import numbers
from typing import Optional

MOST = 2**53


def whole(value: object, least: int, most: int = MOST) -> Optional[int]:
    """A whole number from `least` to `most`; None: it is none."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        return None
    number = int(value)
    return number if least <= number <= most else None


def real(value: object) -> Optional[float]:
    """A number that may be infinite; None: it is none."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    number = float(value)
    return None if math.isnan(number) else number
