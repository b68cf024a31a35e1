"""The launcher of PyTorch itself starts nodes, which find each other by what it sets."""

import json
import os
import subprocess
import sys
import unittest

from node import PROGRAM


class Torchrun(unittest.TestCase):
    def test_four_processes_are_nodes_of_one_run(self):
        launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4")
        node = (
            *("node", "--no-key", "--objective", "quadratic", "--ranks", "2", "--threads", "1"),
            *("--gradients", "4000", "--no-save", "--quiet", "--json", "--patience", "60"),
        )
        program = ("--no-python", os.path.abspath(PROGRAM))
        ran = subprocess.run(
            [sys.executable, *launcher, *program, *node], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=600, check=False,
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        told = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        self.assertEqual(sorted(one["first_rank"] for one in told), [0, 2, 4, 6])
        self.assertEqual({(one["nodes"], one["ranks"]) for one in told}, {(4, 8)})
        self.assertEqual(len({one["mean_hash"] for one in told}), 1)


if __name__ == "__main__":
    unittest.main()
