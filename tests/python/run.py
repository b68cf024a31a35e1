#!/usr/bin/env python3
"""Runs the tests of the Python package: run.py [--program PATH] [--installed] [NAME...]

--installed takes the package that this Python has, in place of the tree's. A NAME is a file without
`.py`, or `file.Class.test`. Files in NEEDS_TORCH run only where torch can be imported, and those in
NEEDS_GUESTS only with a program that has guests; what is left out is said aloud, a line a test. The
last line counts as Catch2 does, which ./test reads.
"""

import argparse
import ast
import glob
import importlib.util
import os
import signal
import subprocess
import sys
import unittest

try:  # torch.compile wants it before anything else takes the standard library's distutils.
    import setuptools  # noqa: F401
except ImportError:
    pass

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NEEDS_TORCH = {
    "optimizers_test",  # every optimizer of torch, alone to the bit
    "models_test",  # which models join, and what a script may do with them
    "failures_test",  # scripts, nodes and forks that end or stand still
    "means_test",  # several scripts: means, ends, shares of the data
    "steps_test",  # steps that nobody would see, and what is easily given for something else
    "sampler_test",  # how many samples are enough, and where they go on
    "work_test",  # the work of a run, which all scripts share
    "wrappers_test",  # torch.compile and DDP around a joined model
    "examples_test",  # the examples in Python that train
    "launch_test",  # processes that call a function
    "torchrun_test",  # its own launcher
    "trainers_test",  # Lightning, the Trainer of Hugging Face, accelerate
}
NEEDS_GUESTS = {*NEEDS_TORCH}


class Outcome(unittest.TextTestResult):
    """Says aloud what is skipped, as the other tests do, and counts cases."""

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"SKIPPED: {test.id().split('.')[-1].replace('_', ' ')}: {reason}", flush=True)


def has_guests(program):
    asked = subprocess.run([program, "node", "--help"], capture_output=True, text=True, check=False)
    return "--guests" in asked.stdout


def tests_in(name):
    """The tests of a file that cannot be imported here, as sentences."""
    with open(os.path.join(HERE, name + ".py"), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    return [
        node.name.replace("_", " ")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def leave_out(name, why):
    for test in tests_in(name):
        print(f"SKIPPED: {name}: {test}: {why}")


def chosen(names, program):
    """The files to load; the tests of the others are said to be left out."""
    torch, guests = importlib.util.find_spec("torch") is not None, has_guests(program)
    for name in sorted(os.path.basename(path)[:-3] for path in glob.glob(HERE + "/*_test.py")):
        if names and not any(wanted.split(".")[0] == name for wanted in names):
            continue
        if name in NEEDS_TORCH and not torch:
            leave_out(name, "torch cannot be imported (./test --with-torch fetches it)")
        elif name in NEEDS_GUESTS and not guests:
            leave_out(name, "this program has no guests")
        else:
            yield name


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/grapevine"))
    parser.add_argument("--installed", action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    # Jobs that a shell puts in the background begin with Ctrl+C ignored, and these tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    program = os.path.abspath(given.program)
    os.environ["GRAPEVINE"] = program
    os.environ.pop("GRAPEVINE_NODE", None)
    packages = [HERE] if given.installed else [os.path.join(ROOT, "app", "python"), HERE]
    os.environ["PYTHONPATH"] = os.pathsep.join(packages)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.path[:0] = packages
    sys.dont_write_bytecode = True
    loader = unittest.TestLoader()
    suite = unittest.TestSuite()
    for name in chosen(given.names, program):
        wanted = [n for n in given.names if n.split(".")[0] == name] or [name]
        suite.addTests(loader.loadTestsFromNames(wanted))
    runner = unittest.TextTestRunner(sys.stdout, resultclass=Outcome, verbosity=2)
    outcome = runner.run(suite)
    failed = len({test.id() for test, _ in outcome.failures + outcome.errors})
    passed = outcome.testsRun - failed - len(outcome.skipped)
    print(f"test cases: {outcome.testsRun} | {passed} passed | {failed} failed")
    sys.exit(0 if outcome.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
