#!/usr/bin/env python3
"""A2CiD2 and all-reduce side by side: ResNet-18 on CIFAR-10, 16 ranks on a ring of one GPU.

    tests/bench/gpu_cifar.py PROGRAM DATA [--device D] [--ranks N] [--epochs E] [--model M] ...

DATA has CIFAR-10's files, as many of them as there are. Prints a table and, at the end, the same as
one line of JSON. Status 77 where there is no data, 1 where a run fails.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

METHODS = ["a2cid2", "all_reduce"]


def train(program, options, method, folder):
    command = [program, "train", "--json", "--out", f"{folder}/{method}",
               "--method", method, "--topology", "ring",
               "--dataset", "cifar10", "--data", options.data, "--model", options.model,
               "--ranks", str(options.ranks), "--batch", str(options.batch),
               "--epochs", str(options.epochs), "--device", options.device, "--lr", options.lr]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{method}: {(done.stderr or done.stdout).strip()}")
        return None
    said = json.loads(done.stdout)
    return {"accuracy": said["accuracy"], "seconds": said["seconds"],
            "consensus_distance": said["consensus_distance"], "gradients": said["gradients"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--ranks", type=int, default=16)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", default="0.1")
    options = parser.parse_args()
    if not pathlib.Path(options.data).is_dir():
        print(f"SKIPPED: no data in {options.data}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        found = {m: train(options.program, options, m, folder) for m in METHODS}
    print(f"{'':<12}{'accuracy':>10}{'seconds':>10}{'consensus distance':>22}{'gradients':>12}")
    for method, row in found.items():
        if row is not None:
            print(f"{method:<12}{row['accuracy']:>10.4f}{row['seconds']:>10.1f}"
                  f"{row['consensus_distance']:>22.3g}{row['gradients']:>12}")
    print(json.dumps(found))
    return 0 if all(found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
