#!/usr/bin/env python3
"""What saving, TensorBoard's event files and a page of metrics that is read every second cost a
node, interleaved with the same node without.

    tests/bench/checkpoints.py PROGRAM [--pairs 8] [--every 10s] [-- OPTIONS of node]

Prints of each pair the gradients per second, and per processor second, which another program's load
leaves as it is; then the medians of their ratios, and how much was written.
"""
import argparse
import json
import pathlib
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import urllib.request

USUAL = "--objective quadratic --dim 100000 --ranks 8 --gradients 0 --until 25".split()


def processor_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def free_port():
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]


def read_page(port, ended, pages):
    """Every second, as an eager Prometheus would; counts in pages[0]."""
    while not ended.wait(1):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
                pages[0] += b"grapevine_" in page.read()
        except OSError:  # not served yet, or not any more
            pass


def run(program, every, options):
    """(gradients per second, per processor second, checkpoints, bytes of one, pages read)"""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        before, pages, ended, port = processor_s(), [0], threading.Event(), free_port()
        seen = [] if every == "0" else ["--tensorboard", "--metrics", str(port)]
        reader = threading.Thread(target=read_page, args=(port, ended, pages))
        if seen:
            reader.start()
        ran = subprocess.run([program, "node", *options, "--checkpoint-every", every, "--out", out,
                              "--json", *seen], capture_output=True, text=True, check=False)
        ended.set()
        if seen:
            reader.join()
        if ran.returncode != 0:
            sys.exit(ran.stderr)
        used = processor_s() - before
        if "ALARM" in ran.stderr:
            sys.exit(ran.stderr)
        told = json.loads(ran.stdout)
        manifests = [json.loads(path.read_text())
                     for path in out.glob("checkpoints/*/manifest.json")]
        last = max(manifests, key=lambda m: m["serial"], default={"serial": 0, "ranks": []})
        return (told["gradients_per_second"], told["gradients"] / used, last["serial"],
                sum(rank["bytes"] for rank in last["ranks"]), pages[0])


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("program")
    words.add_argument("--pairs", type=int, default=8)
    words.add_argument("--every", default="10s")
    given = sys.argv[1:]
    options = given[given.index("--") + 1:] if "--" in given else USUAL
    asked = words.parse_args(given[:given.index("--")] if "--" in given else given)
    ratios, processor_ratios = [], []
    for pair in range(asked.pairs):
        order = ["0", asked.every] if pair % 2 == 0 else [asked.every, "0"]
        told = {every: run(asked.program, every, options) for every in order}
        (bare, bare_used, *_), (saving, saving_used, saved, size, pages) = (
            told["0"], told[asked.every])
        ratios.append(saving / bare)
        processor_ratios.append(saving_used / bare_used)
        print(f"without {bare:9.1f}/s {bare_used:9.1f}/cpu s   with {saving:9.1f}/s "
              f"{saving_used:9.1f}/cpu s   {saved} of {size / 1e6:.1f} MB, {pages} pages",
              flush=True)
    print(f"with / without, {asked.pairs} pairs: medians {statistics.median(ratios):.3f} a second, "
          f"{statistics.median(processor_ratios):.3f} a processor second")


if __name__ == "__main__":
    main()
