"""The examples of examples/python, run as their heads say."""

import difflib
import os
import re
import subprocess
import sys
import unittest

import torch

from node import PROGRAM, Node

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "examples", "python")
DATA = [os.environ.get("GRAPEVINE_DATA", ""), os.path.join(ROOT, "..", "shared", "data")]


def source(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read().splitlines()


def environment(**more):
    data = next((folder for folder in DATA if os.path.isdir(folder)), "/nowhere")
    return {**os.environ, "OMP_NUM_THREADS": "1", "GRAPEVINE_DATA": data, **more}


def run_scripts(name, guests, folder, **more):
    """So many processes of an example at one node, each in a folder of its own; what they say."""
    processes = []
    for k in range(guests):
        place = os.path.join(folder, str(k))
        os.mkdir(place)
        command = [sys.executable, "-W", "error", os.path.join(FOLDER, name)]
        processes.append(
            subprocess.Popen(
                command, cwd=place, env=environment(**more), text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
        )
    said = [process.communicate(timeout=600) for process in processes]
    for process, (_, problems) in zip(processes, said):
        if process.returncode:
            raise AssertionError(problems)
    return [out for out, _ in said]


class Examples(unittest.TestCase):
    def test_the_joined_script_differs_by_five_lines(self):
        lines = list(difflib.ndiff(source("images.py"), source("images_joined.py")))
        self.assertEqual(len([line for line in lines if line.startswith("+ ")]), 5)
        self.assertEqual(len([line for line in lines if line.startswith("- ")]), 2)

    def test_two_joined_scripts_write_the_same_mean_which_knows_the_images(self):
        with Node(2) as node:
            run_scripts("images_joined.py", 2, node.folder, GRAPEVINE_NODE=node.path)
            paths = [os.path.join(node.folder, str(k), "model.pt") for k in range(2)]
            one, other = (torch.load(path, weights_only=True) for path in paths)
        for name, value in one.items():
            self.assertTrue(torch.equal(value, other[name]), name)
        sys.path.insert(0, FOLDER)
        self.addCleanup(sys.path.remove, FOLDER)
        os.environ.update(environment())
        from example_data import images

        pixels, labels = images()[1].tensors
        hidden = torch.relu(pixels @ one["0.weight"].T + one["0.bias"])
        scores = hidden @ one["2.weight"].T + one["2.bias"]
        self.assertGreater((scores.argmax(1) == labels).float().mean().item(), 0.75)

    def test_four_readers_of_a_text_agree_and_read_better_than_frequencies(self):
        with Node(4) as node:
            said = run_scripts("shakespeare.py", 4, node.folder, GRAPEVINE_NODE=node.path,
                               STEPS="60")
        ends = [re.search(r"mean of 4 models has the loss ([\d.]+)", out).group(1) for out in said]
        self.assertEqual(len(set(ends)), 1)
        self.assertLess(float(ends[0]), 3.3)  # nats: the frequencies alone

    def test_launch_starts_a_node_and_its_scripts(self):
        with Node() as aside:  # for a folder that is its user's own
            script = os.path.join(FOLDER, "shakespeare.py")
            command = [PROGRAM, "launch", "--guests", "2", "--", sys.executable, script]
            ran = subprocess.run(
                command, cwd=aside.folder, env=environment(STEPS="5", GRAPEVINE_DATA="/nowhere"),
                capture_output=True, text=True, timeout=300,
            )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stdout.count("the mean of 2 models"), 2)


if __name__ == "__main__":
    unittest.main()
