"""The command `grapevine` of a wheel, and `python -m grapevine`: this process becomes the program.

One wheel serves all Pythons, so the program cannot know where this one keeps its packages: it is
told the folder of torch.
"""

from __future__ import annotations

import importlib.util
import os
import sys

from .program import BESIDE


def main() -> None:
    if not os.path.exists(BESIDE):
        sys.exit("this package is only for scripts: it does not contain the program grapevine")
    torch = importlib.util.find_spec("torch")
    if torch is not None and torch.origin is not None:
        os.environ.setdefault("GRAPEVINE_LIBTORCH", os.path.dirname(os.path.dirname(torch.origin)))
    os.execv(BESIDE, ["grapevine", *sys.argv[1:]])


if __name__ == "__main__":
    main()
