#!/usr/bin/env python3
"""Gloo, PyTorch's transport for CPUs, against a plain blocking socket in the same run.

    python3 tests/bench/gloo_bench.py [ROUNDS]

One payload after another over loopback, each answered by a byte: what `links_bench` measures of
links against the same socket, so that the two ratios can be divided. CPU seconds per GB are those
of both ends. Requires PyTorch with Gloo.
"""

import os
import socket
import statistics
import struct
import sys
import time

import torch
import torch.distributed as dist

SIZES = {"1 MiB": (1 << 20, 100), "64 MiB": (64 << 20, 4)}


def cpu_seconds():
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def plain(link, sends, data, n):
    """Seconds of n payloads; `link` is a connected socket, `data` a writable view."""
    begin = time.perf_counter()
    for _ in range(n):
        if sends:
            link.sendall(data)
            link.recv(1)
        else:
            got = 0
            while got < len(data):
                got += link.recv_into(data[got:])
            link.sendall(b"x")
    return time.perf_counter() - begin


def gloo(sends, tensor, n):
    answer = torch.zeros(1, dtype=torch.uint8)
    begin = time.perf_counter()
    for _ in range(n):
        if sends:
            dist.send(tensor, 1)
            dist.recv(answer, 1)
        else:
            dist.recv(tensor, 0)
            dist.send(answer, 0)
    return time.perf_counter() - begin


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    listener = socket.create_server(("127.0.0.1", 0))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sends = os.fork() > 0
    if sends:
        link, _ = listener.accept()
    else:
        link = socket.create_connection(listener.getsockname())
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", world_size=2,
                            rank=0 if sends else 1)
    for name, (size, n) in SIZES.items():
        tensor = torch.zeros(size, dtype=torch.uint8)
        view = memoryview(tensor.numpy())
        speeds, spent = {"plain": [], "gloo": []}, {"plain": 0.0, "gloo": 0.0}
        for k in range(rounds + 1):
            for what in speeds:
                before = cpu_seconds()
                seconds = plain(link, sends, view, n) if what == "plain" else gloo(sends, tensor, n)
                if k == 0:  # warm-up
                    continue
                speeds[what].append(size * n / seconds / 1e9)
                spent[what] += cpu_seconds() - before
        if not sends:
            link.sendall(struct.pack("dd", spent["plain"], spent["gloo"]))
        if sends:
            theirs = struct.unpack("dd", link.recv(16, socket.MSG_WAITALL))
            ratio = statistics.median(g / p for p, g in zip(speeds["plain"], speeds["gloo"]))
            gigabytes = rounds * n * size / 1e9
            print(f"{name:7} plain {statistics.median(speeds['plain']):.2f} GB/s   "
                  f"gloo {statistics.median(speeds['gloo']):.2f} GB/s   ratio {ratio:.2f}   "
                  f"CPU s/GB: plain {(spent['plain'] + theirs[0]) / gigabytes:.2f}, "
                  f"gloo {(spent['gloo'] + theirs[1]) / gigabytes:.2f}", flush=True)
    dist.destroy_process_group()
    if sends:
        os.wait()


main()
