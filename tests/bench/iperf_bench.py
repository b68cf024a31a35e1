#!/usr/bin/env python3
"""Links both ways at once against `iperf3 --bidir`, in interleaved rounds on loopback.

usage: tests/bench/iperf_bench.py [--build build/release] [--rounds 7] [--seconds 2]

Requires iperf3 (Debian: iperf3). Prints the medians of GB/s each way, and of the ratios."""
import argparse
import json
import re
import socket
import statistics
import subprocess


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def iperf3(seconds):
    port = free_port()
    server = subprocess.Popen(["iperf3", "-s", "-1", "-p", port, "--forceflush"], text=True,
                              stdout=subprocess.PIPE)
    for line in server.stdout:
        if "listening" in line:
            break
    out = subprocess.run(["iperf3", "-c", "127.0.0.1", "-p", port, "--bidir", "-J", "-t",
                          str(seconds)], text=True, stdout=subprocess.PIPE, check=True).stdout
    server.communicate()
    end = json.loads(out)["end"]
    ways = [end[k]["bits_per_second"] / 8e9 for k in ("sum_received", "sum_received_bidir_reverse")]
    return statistics.mean(ways)


def links(build):
    out = subprocess.run([f"{build}/bin/links_bench", "1", "both ways"], text=True,
                         stdout=subprocess.PIPE, check=True).stdout
    return {f"{size} MiB": float(speed)
            for size, speed in re.findall(r"^(\d+) MiB both ways +\S+ +(\S+) GB/s", out, re.M)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args()
    theirs, ours, ratios = [], {}, {}
    for _ in range(options.rounds):
        theirs.append(iperf3(options.seconds))
        for size, speed in links(options.build).items():
            ours.setdefault(size, []).append(speed)
            ratios.setdefault(size, []).append(speed / theirs[-1])
    print(f"iperf3 --bidir {statistics.median(theirs):.2f} GB/s each way")
    for size, speeds in ours.items():
        print(f"links, {size} {statistics.median(speeds):.2f} GB/s each way, "
              f"ratio {statistics.median(ratios[size]):.2f} "
              f"({min(ratios[size]):.2f} to {max(ratios[size]):.2f}), wanted >= 0.80")


main()
