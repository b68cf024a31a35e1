"""`grapevine.launch`: what processes return, how they fail, that nothing outlives its caller."""

import os
import re
import signal
import subprocess
import sys
import unittest
import uuid

import torch

import grapevine
from networks import linear, sgd, step
from node import until

HERE = os.path.dirname(os.path.abspath(__file__))


def train(steps):
    torch.manual_seed(0)
    model = linear()
    optimizer = sgd(model)
    with grapevine.join(model, optimizer) as rank:
        for _ in range(steps):
            step(model, optimizer)
        mean = rank.finish()
        return rank.rank, rank.steps, mean


def fail_at_one(*_):
    if os.environ["GRAPEVINE_SEAT"] == "1":
        raise ValueError("of my own")
    while True:  # until it is ended
        signal.pause()


def leave_at_one(how):
    last = os.environ["GRAPEVINE_SEAT"] == "1"
    if last and how == "never":
        return how
    model = linear()
    optimizer = sgd(model)
    with grapevine.join(model, optimizer) as rank:
        if last:
            return how
        for _ in range(5):
            step(model, optimizer)
        rank.finish()
        return rank.steps


def end_at_one():
    if os.environ["GRAPEVINE_SEAT"] == "1":
        os._exit(7)
    while True:
        signal.pause()


# A session of its own that launches three ranks, which train until they are ended.
SESSION = """
import grapevine, signal, sys
sys.path.insert(0, %r)
from networks import linear, sgd, step
signal.signal(signal.SIGINT, signal.default_int_handler)  # as a terminal leaves it

def train():
    model = linear()
    optimizer = sgd(model)
    rank = grapevine.join(model, optimizer)
    step(model, optimizer)
    print("rank %%d trains\\n" %% rank.rank, end="", flush=True)  # at once: one pipe for all
    while True:
        step(model, optimizer)

try:
    grapevine.launch(train, ranks=3)
except KeyboardInterrupt:
    print("interrupted", flush=True)
""" % HERE


class Session:
    """Python with a program from a file, or as a notebook has it: with none."""

    def __init__(self, text):
        self.mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-c", text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env={**os.environ, "LAUNCH_TEST": self.mark},
        )

    def await_training(self, ranks):
        said, seen = [], set()
        while len(seen) < ranks:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError("".join(said))
            said.append(line)
            seen |= set(re.findall(r"rank (\d+) trains", line))
        return self.started()

    def started(self):
        """Command lines of what it has started, and what that has."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    ours = b"LAUNCH_TEST=" + self.mark.encode() in file.read()
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if ours and int(pid) != self.process.pid:
                        found.append(file.read().replace(b"\0", b" ").decode())
            except OSError:
                continue  # it has ended
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Launch(unittest.TestCase):
    def test_the_processes_train_together_and_what_they_return_comes_back_by_seat(self):
        returned = grapevine.launch(train, ranks=2, args=(5,))
        self.assertEqual([rank for rank, _, _ in returned], [0, 1])
        self.assertEqual([steps for _, steps, _ in returned], [5, 5])
        one, other = (mean for _, _, mean in returned)
        for name, value in one.items():
            self.assertTrue(torch.equal(value, other[name]), name)

    def test_a_function_that_no_module_has_is_called_too(self):
        offset = 10
        called = grapevine.launch(lambda: offset + int(os.environ["GRAPEVINE_SEAT"]), ranks=2)
        self.assertEqual(called, [10, 11])

    def test_one_that_fails_ends_the_others_and_its_traceback_is_told(self):
        with self.assertRaisesRegex(RuntimeError, r"(?s)rank 1 failed:.*ValueError: of my own"):
            grapevine.launch(fail_at_one, ranks=3)
        with self.assertRaisesRegex(RuntimeError, "rank 1 ended with status 7"):
            grapevine.launch(end_at_one, ranks=2)
        with self.assertRaisesRegex(RuntimeError, "rank 0 failed:(?s:.*)pickle"):
            grapevine.launch(lambda: lambda: 0, ranks=1)

    def test_the_others_do_not_wait_for_one_that_returns_without_finish(self):
        for how in ("never", "close"):
            with self.subTest(how):
                returned = grapevine.launch(leave_at_one, ranks=2, args=(how,))
                self.assertEqual(returned, [5, how])

    def test_mistakes_are_told_in_a_line(self):
        with self.assertRaisesRegex(ValueError, "function is a int"):
            grapevine.launch(3)
        with self.assertRaisesRegex(ValueError, "ranks is 0, accepted: 1 or more"):
            grapevine.launch(train, ranks=0)
        with self.assertRaisesRegex(ValueError, "topology"):
            grapevine.launch(train, ranks=2, topology="nonsense")

    def test_nothing_outlives_a_caller_that_is_killed(self):
        with Session(SESSION) as session:
            started = session.await_training(3)
            self.assertEqual(len([words for words in started if " node " in words]), 1, started)
            self.assertEqual(len(started), 4, started)
            session.process.kill()
            until("the end of what a killed session has started", lambda: not session.started())

    def test_ctrl_c_ends_all_and_is_raised(self):
        with Session(SESSION) as session:
            session.await_training(3)
            session.process.send_signal(signal.SIGINT)
            rest = session.process.stdout.read()
            self.assertNotIn("this node", rest)  # which leaves as it shall
            self.assertEqual(session.process.wait(), 0, rest)
            self.assertTrue(rest.endswith("interrupted\n"), rest)
            self.assertEqual(session.started(), [])


if __name__ == "__main__":
    unittest.main()
