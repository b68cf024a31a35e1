"""What happens when a script, a node or a child of a script ends, stands or is interrupted."""

import os
import signal
import subprocess
import sys
import threading
import unittest
import warnings

import torch

import grapevine
from networks import interrupt_the_next_wait, join_when_free, linear, sgd, step, values
from node import PATIENCE_S, Node, until

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "script.py")


class Script:
    """script.py in a process; `line` is its next word."""

    def __init__(self, node, *words):
        command = [sys.executable, SCRIPT, node.path, *words]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )

    def line(self):
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError(self.process.stderr.read())
        return line

    def until_going(self):
        said = self.line()
        if self.line() != "going":
            raise RuntimeError("it does not train")
        return said

    def kill(self):
        """With its loader's workers, which outlive it for a while and hold its pipes."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def interrupt(self):
        """Ctrl+C; what the script says last."""
        self.process.send_signal(signal.SIGINT)
        said, problems = self.process.communicate(timeout=60)
        return said.strip() or problems


def steps_of(node):
    """Joins, as soon as a seat is free; the steps of the rank."""
    model = linear()
    with join_when_free(model, sgd(model), node) as rank:
        return rank.steps


class Scripts(unittest.TestCase):
    def test_a_killed_script_frees_its_seat_and_its_rank_keeps_where_it_stood(self):
        for words in ([], ["loader=fork"], ["loader=forkserver"], ["loader=spawn"]):
            with self.subTest(words=words), Node() as node:
                script = Script(node, *words)
                script.until_going()
                script.process.kill()
                self.assertGreaterEqual(steps_of(node), 20)
                script.kill()

    def test_a_script_that_comes_back_has_values_steps_and_blob(self):
        with Node() as node:
            script = Script(node, "keep")
            script.until_going()
            script.kill()
            model = linear()
            model.weight.data.fill_(9.0)
            with join_when_free(model, sgd(model), node) as rank:
                self.assertGreaterEqual(rank.steps, 20)
                self.assertNotIn(9.0, model.weight)
                self.assertIn(rank.kept()["step"], (rank.steps, rank.steps - 1))

    def test_a_worker_that_imports_an_unguarded_script_does_not_join(self):
        with Node(4) as node:
            script = Script(node, "loader=spawn", "unguarded")
            _, problems = script.process.communicate(timeout=4 * PATIENCE_S)
            self.assertNotEqual(script.process.returncode, 0)
            self.assertIn('if __name__ == "__main__":', problems)

    def test_an_interrupted_script_closes_in_order(self):
        with Node() as node:
            script = Script(node)
            script.until_going()
            self.assertEqual(script.interrupt(), "closed True")

    def test_an_interrupt_while_the_node_stands_still_ends_the_script(self):
        with Node() as node:
            script = Script(node)
            script.until_going()
            node.signal(signal.SIGSTOP)
            self.assertEqual(script.interrupt(), "closed True")
            node.signal(signal.SIGCONT)


class Checkpoints(unittest.TestCase):
    def test_a_rank_goes_on_from_the_checkpoint_that_its_script_asked_for(self):
        with Node(1, "--out", "run") as node:
            model = linear()
            optimizer = torch.optim.Adam(model.parameters(), 1e-2)
            with grapevine.join(model, optimizer, node.path) as rank:
                for _ in range(3):
                    step(model, optimizer)
                self.assertTrue(rank.keep(optimizer.state_dict()))
                at = rank.checkpoint()
                saved = model.weight.detach().clone()
                self.assertTrue(os.path.exists(os.path.join(node.folder, at, "manifest.json")))
                step(model, optimizer)  # which is lost
                self.assertFalse(torch.equal(model.weight, saved))
                node.kill()
            node.start()
            later = linear()
            with grapevine.join(later, sgd(later), node.path) as rank:
                self.assertEqual(rank.steps, 3)
                self.assertTrue(torch.equal(later.weight, saved))
                self.assertEqual(rank.kept()["state"][0]["step"], 3)

    def test_where_none_can_be_written_the_reason_is_raised_and_the_rank_goes_on(self):
        with Node(1, "--no-save") as node:
            model = linear()
            optimizer = sgd(model)
            with grapevine.join(model, optimizer, node.path) as rank:
                with self.assertRaisesRegex(RuntimeError, "no run directory"):
                    rank.checkpoint()
                step(model, optimizer)
                self.assertEqual(rank.steps, 1)
                node.kill()
                with self.assertWarns(UserWarning):
                    self.assertIsNone(rank.checkpoint())
                self.assertIsNone(rank.checkpoint())


class Forks(unittest.TestCase):
    def setUp(self):
        self.node = Node()
        self.addCleanup(self.node.close)
        self.model = linear()
        self.optimizer = sgd(self.model)
        self.rank = grapevine.join(self.model, self.optimizer, self.node.path)
        self.addCleanup(self.rank.close)

    def child(self, do):
        """Forks; whether the child has done it without an exception."""
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                do()
                status = 0
            finally:
                os._exit(status)
        return os.waitpid(pid, 0)[1] == 0

    def test_a_child_cannot_step_and_the_parent_goes_on(self):
        def cannot():
            self.assertEqual(self.rank._seat.node._socket.fileno(), -1)  # it hides no death of ours
            with self.assertRaisesRegex(RuntimeError, "forked from the script of rank 0"):
                step(self.model, self.optimizer)
            with self.assertRaises(RuntimeError):
                self.rank.mean_state_dict()
            self.rank.close()

        self.assertTrue(self.child(cannot))
        step(self.model, self.optimizer)
        self.assertEqual(self.rank.steps, 1)

    def test_what_a_child_writes_does_not_reach_the_parent(self):
        def write():
            with torch.no_grad():
                self.model.weight.fill_(7.0)
                self.assertEqual(self.model.weight[0, 0], 7.0)

        self.assertTrue(self.child(write))
        self.assertNotIn(7.0, self.model.weight)


class Nodes(unittest.TestCase):
    def setUp(self):
        self.node = Node()
        self.addCleanup(self.node.close)
        self.model = linear()
        self.optimizer = sgd(self.model)

    def join(self, **options):
        rank = grapevine.join(self.model, self.optimizer, self.node.path, **options)
        self.addCleanup(rank.close)
        return rank

    def steps(self, count=1):
        """Trains; what was warned of."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(count):
                step(self.model, self.optimizer)
        return [str(w.message) for w in caught if w.category is UserWarning]

    def test_the_script_goes_on_alone_is_told_once_and_finds_the_node_again(self):
        rank = self.join()
        self.assertEqual(self.steps(3), [])
        self.node.kill()
        before = self.model.weight.detach().clone()
        said = " ".join(self.steps(4))
        self.assertRegex(said, "^rank 0: the node is gone.*continues to train alone$")
        self.assertTrue(rank.alone)
        self.assertFalse(torch.equal(before, self.model.weight))
        self.assertFalse(rank.keep({}))
        self.node.start()
        said = until("the node again", self.steps)
        self.assertRegex(said[0], "joined again as rank 0, with the script's")
        self.assertFalse(rank.alone)
        self.steps(2)
        self.assertEqual(rank.steps, 2)
        self.assertTrue(torch.equal(rank.mean_state_dict()["weight"], self.model.weight))

    def test_a_node_that_kept_the_rank_has_its_parameters_and_not_the_steps_made_alone(self):
        rank = self.join()
        self.steps(2)
        self.node.signal(signal.SIGSTOP)  # it lives, and keeps what the rank has
        self.assertRegex(self.steps()[0], "continues to train alone$")
        had = self.model.weight.detach().clone()  # the node has this step, or will take it
        self.steps(20)
        lone = self.model.weight.detach().clone()
        self.node.signal(signal.SIGCONT)
        said = until("the node again", self.steps)
        told = "its parameters; the script's own steps since are not in it"
        self.assertEqual(said, ["joined again as rank 0, with " + told])
        self.assertFalse(rank.alone)
        self.assertEqual(rank.steps, 3)
        self.assertTrue(torch.equal(self.model.weight, had))
        self.assertFalse(torch.equal(self.model.weight, lone))

    def test_a_graph_that_is_alive_when_the_node_is_found_again_raises(self):
        rank = self.join()
        self.node.kill()
        self.assertRegex(self.steps()[0], "continues to train alone$")
        loss = self.model(torch.randn(4, 1000, requires_grad=True)).sum()
        self.node.start()

        def found():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rank.step()
            return not rank.alone

        until("the node again", found)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            loss.backward()

    def test_after_its_patience_the_script_is_told_that_the_node_is_gone(self):
        self.join(alone=0.0)
        self.node.kill()
        with self.assertRaisesRegex(grapevine.NodeGone, "has been gone for"):
            until("the end of patience", lambda: self.steps() == 0)

    def test_a_node_that_stands_still_is_taken_for_gone(self):
        rank = self.join()
        self.steps(2)
        self.node.signal(signal.SIGSTOP)
        self.assertRegex(self.steps()[0], "it says nothing")
        self.assertTrue(rank.alone)
        self.node.signal(signal.SIGCONT)

    def test_no_node_and_no_address_are_said_in_a_line(self):
        with self.assertRaisesRegex(grapevine.NodeGone, "no node answers at /nowhere"):
            grapevine.join(self.model, self.optimizer, "/nowhere")
        with self.assertRaisesRegex(ValueError, "GRAPEVINE_NODE"):
            grapevine.join(self.model, self.optimizer)
        os.environ["GRAPEVINE_NODE"] = self.node.path
        self.addCleanup(os.environ.pop, "GRAPEVINE_NODE")
        grapevine.join(self.model, self.optimizer).close()

    def step_interrupted(self, rank):
        """Ctrl+C in a STEP at a node that stands still until that was raised."""
        self.node.signal(signal.SIGSTOP)
        connection = rank._seat.node
        connection._socket.settimeout(PATIENCE_S)  # the whole machine may stand still, too
        timer = interrupt_the_next_wait(rank)

        def read_open_answer(_):
            del connection.read_open_answer
            self.node.signal(signal.SIGCONT)
            return connection.read_open_answer(PATIENCE_S)

        connection.read_open_answer = read_open_answer
        with self.assertRaises(KeyboardInterrupt):
            rank.step()
        timer.join()

    def test_an_interrupt_while_the_answer_is_awaited_is_raised_and_loses_nothing(self):
        rank = self.join()
        self.steps(2)
        own = values(self.model)
        self.step_interrupted(rank)
        self.assertFalse(rank.alone)
        self.assertEqual(rank.steps, 3)
        self.assertTrue(torch.equal(own[0], self.model.weight))
        self.steps(2)
        self.assertEqual(rank.steps, 5)

    def test_a_step_of_low_precision_that_was_interrupted_is_not_taken_twice(self):
        self.model = torch.nn.Linear(10, 4).bfloat16()
        self.optimizer = None
        rank = self.join()
        with torch.no_grad():
            self.model.weight.zero_().add_(1)
        self.step_interrupted(rank)
        rank.step()
        self.assertEqual(rank.steps, 2)
        self.assertEqual(rank.mean_state_dict()["weight"].flatten().tolist(), [1.0] * 40)

    def test_an_interrupt_while_a_seat_is_awaited_leaves_the_model_its_own(self):
        self.node.signal(signal.SIGSTOP)
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            self.join()
        timer.join()
        self.node.signal(signal.SIGCONT)
        self.steps(1)
        self.assertEqual(steps_of(self.node), 0)

    def test_interrupts_at_any_moment_leave_the_rank_in_step(self):
        rank = self.join()
        for after in range(1, 80):
            made = rank.steps
            timer = threading.Timer(after * 1e-4, os.kill, (os.getpid(), signal.SIGINT))
            with self.assertRaises(KeyboardInterrupt):
                timer.start()
                while True:
                    rank.step()
            timer.join()
            rank.step()
            self.assertFalse(rank.alone)
            self.assertGreater(rank.steps, made)


if __name__ == "__main__":
    unittest.main()
