#!/usr/bin/env python3
"""What real processes do when machines fail: figures beside what is claimed of them.

    tests/bench/cluster.py NAME|all [number] [--program build/release/grapevine] [--before PROGRAM]

NAME is kill, pause, partition, cut, joiner, tls, reconfigure, strangers, starved, starved_scripts,
scale, nodes, snapshot, idle or churn; the number is churn's minutes (10), or how many processes
`nodes` has (64). The two that starve are compared with the program of an earlier commit, in turns.
Machines are network namespaces with a cable between them, which needs root. Status 1 where a claim
does not hold.
"""
import pathlib
import signal
import sys
import time

import cluster_faults
import cluster_many
import cluster_starved

CLAIMS = {name: getattr(module, name)
          for module, names in ((cluster_faults, ("kill", "pause", "partition", "cut", "joiner")),
                                (cluster_starved, ("starved", "starved_scripts")),
                                (cluster_many, ("tls", "reconfigure", "strangers", "scale",
                                                "nodes", "snapshot", "idle", "churn")))
          for name in names}


def program_given(words, option):
    """Taken out of the words; empty: not given."""
    if option not in words:
        return ""
    at = words.index(option)
    program = str(pathlib.Path(words[at + 1]).resolve())
    del words[at:at + 2]
    return program


def main(words):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no process of ours stays
    program = program_given(words, "--program")
    before = program_given(words, "--before")
    root = pathlib.Path(__file__).resolve().parents[2]
    program = program or str(root / "build/release/grapevine")
    names = list(CLAIMS) if words[:1] == ["all"] else words[:1]
    if not names or names[0] not in CLAIMS:
        sys.exit(__doc__)
    failed = 0
    for name in names:
        began = time.monotonic()
        print(f"{name}: {CLAIMS[name].__doc__}", flush=True)

        def tell(what, claimed, measured, holds):
            nonlocal failed
            failed += not holds
            print(f"  {'ok  ' if holds else 'FAIL'} {what:58} {claimed:12} {measured}", flush=True)
        more = [float(words[1])] if name in ("churn", "nodes") and len(words) > 1 else []
        if name.startswith("starved"):
            more = [before]
        try:
            CLAIMS[name](program, tell, *more)
        except (TimeoutError, RuntimeError) as error:
            tell(str(error), "", "", False)
        print(f"  {time.monotonic() - began:.0f} s", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
