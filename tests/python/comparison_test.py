"""The example that compares graphs, which trains nothing and needs no torch."""

import os
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "examples", "python", "compare_graphs.py")


class Comparison(unittest.TestCase):
    def test_the_comparison_of_graphs_prints_what_it_promises(self):
        with open(SCRIPT, encoding="utf-8") as file:
            promised = [line[2:] for line in file.read().splitlines() if " exchanges" in line]
        ran = subprocess.run(
            [sys.executable, SCRIPT], env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True, text=True, check=True,
        )
        wanted = [line for line in promised if "lambda_2 =" in line and "{" not in line]
        self.assertEqual(ran.stdout.splitlines(), wanted)
        self.assertEqual(len(wanted), 3)


if __name__ == "__main__":
    unittest.main()
