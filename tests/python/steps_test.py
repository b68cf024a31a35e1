"""Steps that nobody would see: beside the joined optimizer, by hand, and after the end."""

import copy
import gc
import math
import threading
import unittest
import warnings

import torch
from torch import nn

import grapevine
from networks import linear, sgd, step
from node import Node


class TwoSteps(torch.optim.Optimizer):
    """Sharpness-aware minimisation: half a step up, half a step down by an optimizer within."""

    def __init__(self, params, within, **options):
        super().__init__(params, dict(options))
        self.within = within(self.param_groups, **options)

    @torch.no_grad()
    def first_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old"] = p.clone()
                p.add_(p.grad, alpha=0.05)

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old"]
        self.within.step()


class Wrapping(torch.optim.Optimizer):
    """An optimizer whose step is another's."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})
        self.within = torch.optim.SGD(self.param_groups, lr=lr)

    def step(self, closure=None):
        return self.within.step(closure)


class Steps(unittest.TestCase):
    def setUp(self):
        self.node = Node()
        self.addCleanup(self.node.close)
        torch.manual_seed(0)
        self.model = linear()
        self.warned = []
        self.catch = warnings.catch_warnings(record=True)
        self.warned = self.catch.__enter__()
        self.addCleanup(self.catch.__exit__, None, None, None)
        warnings.simplefilter("always")

    def join(self, optimizer, **options):
        rank = grapevine.join(self.model, optimizer, self.node.path, **options)
        self.addCleanup(rank.close)
        return rank

    def said(self):
        """What was warned of since the last call."""
        lines = [str(w.message) for w in self.warned if w.category is UserWarning]
        self.warned.clear()
        return lines

    def gradients(self):
        for parameter in self.model.parameters():
            parameter.grad = torch.randn_like(parameter)

    def test_half_steps_are_one_STEP_by_the_optimizer_within(self):
        optimizer = TwoSteps(self.model.parameters(), torch.optim.SGD, lr=0.1)
        rank = self.join(optimizer)
        start = self.model.weight.detach().clone()
        for _ in range(5):
            self.gradients()
            optimizer.first_step()
            self.gradients()
            optimizer.second_step()
        self.assertEqual(rank.steps, 5)
        self.assertRegex(" ".join(self.said()), "^rank 0: SGD was not joined and steps the rank's")
        mean = rank.finish()
        self.assertTrue(torch.equal(mean["weight"], self.model.weight))
        self.assertFalse(torch.equal(mean["weight"], start))
        self.assertEqual(self.said(), [])

    def test_an_optimizer_within_a_joined_one_makes_no_STEP_of_its_own(self):
        optimizer = Wrapping(self.model.parameters(), lr=0.1)
        rank = self.join(optimizer)
        for _ in range(3):
            step(self.model, optimizer)
        self.assertEqual((rank.steps, self.said()), (3, []))

    def test_an_optimizer_that_is_made_anew_steps_the_rank_and_is_said_once(self):
        rank = self.join(sgd(self.model))
        anew = torch.optim.Adam(self.model.parameters(), 1e-3)
        for _ in range(4):
            step(self.model, anew)
        self.assertEqual(rank.steps, 4)
        self.assertRegex(self.said()[0], "Adam was not joined and steps the rank's parameters")
        self.assertEqual(self.said(), [])
        self.assertTrue(torch.equal(rank.mean_state_dict()["weight"], self.model.weight))

    def test_local_steps_of_a_new_optimizer_are_counted_as_those_of_the_joined_one(self):
        rank = self.join(sgd(self.model), every=2)
        anew = sgd(self.model)
        for _ in range(4):
            step(self.model, anew)
        self.assertEqual(rank.steps, 2)

    def test_parameters_that_are_trained_later_and_not_joined_are_named(self):
        self.model = nn.Sequential(nn.Linear(1000, 10), nn.Linear(10, 10))
        self.model[0].requires_grad_(False)
        rank = self.join(sgd(self.model[1]))
        self.model[0].requires_grad_(True)
        step(self.model, sgd(self.model))
        said = self.said()
        self.assertIn("steps 2 parameters of the model that are not joined (0.weight", said[0])
        self.assertEqual(rank.steps, 1)

    def test_without_an_optimizer_a_parameter_that_is_unfrozen_is_refused_at_the_next_STEP(self):
        self.model = nn.Sequential(nn.Linear(1000, 10), nn.Linear(10, 10))
        self.model[0].requires_grad_(False)
        rank = self.join(None)
        rank.step()
        self.model[0].requires_grad_(True)
        with self.assertRaisesRegex(ValueError, "^0.weight requires a gradient and is not joined"):
            rank.step()

    def test_steps_by_hand_are_said_at_the_next_call_and_given_to_the_rank_at_the_end(self):
        for by in ("data", "in place", "other memory", "a copy"):
            with self.subTest(by=by), Node() as self.node:
                self.model = nn.Linear(8, 8)
                if by == "a copy":
                    self.model = self.model.bfloat16()
                rank = self.join(sgd(self.model))
                start = self.model.weight.detach().clone()
                for _ in range(3):
                    self.gradients()
                    with torch.no_grad():
                        for p in self.model.parameters():
                            if by == "data":
                                p.data.sub_(0.1 * p.grad.data)
                            elif by == "other memory":
                                p.data = p.data - 0.1 * p.grad
                            else:
                                p.sub_(0.1 * p.grad)
                self.assertEqual(self.said(), [])
                self.assertTrue(torch.equal(rank.mean_state_dict()["weight"], start))
                self.assertRegex(self.said()[0], "have changed since STEP 0 .* not in the mean$")
                mean = rank.finish()
                self.assertRegex(self.said()[0], "are given to the rank as one$")
                self.assertTrue(torch.equal(mean["weight"], self.model.weight))
                self.assertFalse(torch.equal(mean["weight"], start))

    def test_what_moved_and_is_in_no_rank_is_said_by_close(self):
        rank = self.join(sgd(self.model))
        with torch.no_grad():
            self.model.weight.add_(1)
        rank.close()
        self.assertRegex(self.said()[0], "have changed since STEP 0 .* in no rank$")

    def test_a_script_that_steps_a_copy_of_its_model_is_told_that_it_made_no_STEP(self):
        for ask in ("mean_state_dict", "finish", "close"):
            with self.subTest(ask), Node() as self.node:
                rank = self.join(sgd(self.model))
                copied = copy.deepcopy(self.model)
                step(copied, sgd(copied))
                getattr(rank, ask)()
                rank.close()
                said = self.said()
                self.assertEqual(len(said), 1)
                self.assertRegex(said[0], "^rank 0: its script has made no STEP.* a copy of the jo")

    def test_a_model_that_was_sent_to_another_process_is_the_ranks_still(self):
        shared = torch.multiprocessing.get_context("spawn").SimpleQueue()
        for share in (self.model.share_memory, lambda: shared.put(self.model.state_dict())):
            with self.subTest(share), Node() as self.node:
                optimizer = sgd(self.model)
                rank = self.join(optimizer)
                share()
                with torch.no_grad():
                    self.model.bias.add_(1)
                rank.mean_state_dict()
                self.assertRegex(self.said()[0], "have changed since STEP 0 .* not in the mean$")
                share()
                step(self.model, optimizer)
                share()
                self.assertTrue(torch.equal(rank.finish()["weight"], self.model.weight))
                self.assertEqual(self.said(), [])
                rank.close()

    def test_a_rank_whose_every_step_was_seen_says_nothing(self):
        optimizer = sgd(self.model)
        rank = self.join(optimizer)
        for _ in range(3):
            step(self.model, optimizer)
            rank.mean_state_dict()
            rank.keep({"steps": rank.steps})
        rank.finish()
        rank.close()
        self.assertEqual(self.said(), [])

    def test_steps_between_two_STEPs_are_under_way_and_nothing_is_said(self):
        optimizer = sgd(self.model)
        rank = self.join(optimizer, every=2)
        step(self.model, optimizer)
        rank.mean_state_dict()
        self.assertEqual(self.said(), [])
        rank.finish()
        self.assertEqual(rank.steps, 1)

    def test_steps_after_close_or_finish_are_said_once_and_are_the_scripts_own(self):
        for end in ("close", "finish"):
            with self.subTest(end=end), Node() as self.node:
                self.model = linear()
                optimizer = sgd(self.model)
                rank = self.join(optimizer)
                step(self.model, optimizer)
                getattr(rank, end)()
                self.assertEqual(self.said(), [])
                before = self.model.weight.detach().clone()
                for _ in range(3):
                    step(self.model, optimizer)
                done = {"close": "is closed", "finish": "has finished"}[end]
                self.assertEqual(
                    self.said(), [f"rank 0 {done}: steps of its script are in no rank now"]
                )
                self.assertFalse(torch.equal(before, self.model.weight))
                rank.close()

    def test_a_closed_rank_is_let_go_though_its_optimizer_lives(self):
        optimizer = sgd(self.model)
        rank = grapevine.join(self.model, optimizer, self.node.path)
        before = len(gc.get_referrers(rank))
        rank.close()
        self.assertLess(len(gc.get_referrers(rank)), before)
        self.assertNotIn(rank, [getattr(h, "__self__", None) for h in
                                optimizer._optimizer_step_post_hooks.values()])

    def test_a_model_that_joins_again_leaves_its_first_rank(self):
        with Node(2) as self.node:
            optimizer = sgd(self.model)
            first = self.join(optimizer, rank=1)
            step(self.model, optimizer)
            second = self.join(optimizer)
            self.assertIn("rank 1: its model joins again, and leaves it", self.said())
            self.assertEqual((second.rank, second.steps), (1, 1))
            step(self.model, optimizer)
            self.assertEqual((first.steps, second.steps), (1, 2))
            self.assertEqual(self.said(), [])
            with self.assertRaisesRegex(RuntimeError, "rank 1 is closed"):
                first.mean_state_dict()

    def test_an_optimizer_of_a_closed_rank_that_joins_again_is_not_said_to_be_in_no_rank(self):
        optimizer = sgd(self.model)
        self.join(optimizer).close()
        with self.join(optimizer) as rank:
            step(self.model, optimizer)
            self.assertEqual(rank.steps, 1)
        self.assertEqual(self.said(), [])
        step(self.model, optimizer)
        self.assertEqual(self.said(), ["rank 0 is closed: steps of its script are in no rank now"])

    def test_another_model_of_a_script_that_has_the_last_seat_is_told_so(self):
        rank = self.join(None)
        other = linear()
        with self.assertRaisesRegex(grapevine.Refused, "no seat is free.*this script has rank 0"):
            grapevine.join(other, None, self.node.path)
        rank.close()

    def test_steps_of_two_threads_take_turns(self):
        rank = self.join(None)
        failed = []

        def steps():
            try:
                for _ in range(100):
                    rank.step()
            except Exception as error:  # which a thread would hide
                failed.append(error)

        threads = [threading.Thread(target=steps) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((failed, rank.steps, rank.alone), ([], 300, False))

    def test_parameters_that_ask_for_no_gradient_are_said(self):
        self.model.requires_grad_(False)
        self.join(torch.optim.SGD(self.model.parameters(), 0.1))
        self.assertRegex(self.said()[0], "none of the joined parameters requires a gradient")


class Mistakes(unittest.TestCase):
    """What is easily given for something else is refused in a line."""

    def refused(self, words, *given, **options):
        with self.assertRaises(ValueError) as caught:
            grapevine.join(*given, **options)
        self.assertRegex(str(caught.exception), words)
        self.assertNotIn("\n", str(caught.exception))

    def test_what_is_no_model_and_no_optimizer(self):
        model, other = linear(), linear()
        optimizer = sgd(model)
        self.refused("model is a generator", model.parameters(), optimizer, "/nowhere")
        self.refused("optimizer is a list, accepted", model, [optimizer, sgd(other)], "/nowhere")
        self.refused("optimizer is a generator", model, model.parameters(), "/nowhere")
        self.refused("also is a SGD", model, optimizer, "/nowhere", also=sgd(other))
        self.refused("optimizer is a Linear", model, optimizer, "/nowhere", also=[other])
        for every in (2.5, 0, "2", True):
            self.refused("every is", model, optimizer, "/nowhere", every=every)
        for alone in (-1, math.nan, "5"):
            self.refused("alone is", model, optimizer, "/nowhere", alone=alone)
        for rank in (-1, 1.0, "0", True, 2**32):
            self.refused("rank is .*accepted: None, or", model, optimizer, "/nowhere", rank=rank)
        for run in (None, b"run", "two\nlines"):
            self.refused("run is .*accepted: the name", model, optimizer, "/nowhere", run=run)
        for node in (3, "a\0b", "\ud800", [1]):
            self.refused("node is .*accepted: the path", model, optimizer, node)

    def test_a_loss_that_is_no_number(self):
        with Node() as node, grapevine.join(linear(), None, node.path) as rank:
            with self.assertRaisesRegex(ValueError, "rank.loss is 'abc', accepted: a number"):
                rank.loss = "abc"
            with self.assertRaisesRegex(ValueError, "rank.loss is 10*, accepted: a number"):
                rank.loss = 10**400
            rank.loss = torch.tensor(0.5, requires_grad=True)
            self.assertEqual(rank.loss, 0.5)


if __name__ == "__main__":
    unittest.main()
