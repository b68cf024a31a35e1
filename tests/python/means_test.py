"""Several scripts at one node: means, ends, shares of the data."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

import grapevine
from networks import equal, interrupt_the_next_wait, join_when_free, linear, sgd, step
from node import PATIENCE_S, Node, until


def flat(model):
    return torch.cat([p.detach().double().reshape(-1) for p in model.parameters()])


class Scripts:
    """So many joined linear models at one node, in this process."""

    def __init__(self, node, count, make=sgd, **options):
        self.models = [nn.Linear(100, 100) for _ in range(count)]
        self.optimizers = [make(model) for model in self.models]
        self.ranks = [
            grapevine.join(model, optimizer, node.path, **options)
            for model, optimizer in zip(self.models, self.optimizers)
        ]

    def close(self):
        for rank in self.ranks:
            rank.close()

    def finish(self, **options):
        """All at once, as scripts in processes of their own would; what each is given."""
        with ThreadPoolExecutor(len(self.ranks)) as pool:
            return list(pool.map(lambda rank: rank.finish(**options), self.ranks))

    def noise(self, k):
        """A step of script k on gradients of noise."""
        for parameter in self.models[k].parameters():
            parameter.grad = torch.randn_like(parameter)
        self.optimizers[k].step()


class Means(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def test_the_mean_of_eight_is_the_start_and_the_mean_of_all_steps(self):
        def adam(model):
            return torch.optim.Adam(model.parameters(), 1e-3)

        with Node(8, "--rate", "10") as node:
            models = [nn.Linear(100, 100) for _ in range(8)]
            optimizers = [adam(model) for model in models]
            ranks = [grapevine.join(model, None, node.path) for model in models]
            start = ranks[0].mean_state_dict()
            begin = torch.cat([v.double().reshape(-1) for v in start.values()])
            moved = torch.zeros_like(begin)

            def exchanges():
                return sum(rank.exchanges for rank in ranks)

            def exchanged():
                for model, optimizer, rank in zip(models, optimizers, ranks):
                    before = flat(model)
                    for parameter in model.parameters():
                        parameter.grad = torch.randn_like(parameter)
                    optimizer.step()
                    moved.add_(flat(model) - before)
                    rank.step()
                return exchanges() > 60

            # Gossip keeps the sum of x and its twin; that of x alone is there when they have met.
            def met():
                for rank in ranks:
                    rank.step()
                return exchanges() > 400

            until("exchanges", exchanged)
            until("exchanges without steps", met)
            with ThreadPoolExecutor(8) as pool:
                means = list(pool.map(lambda rank: rank.finish(), ranks))
            for mean in means:
                given = torch.cat([v.double().reshape(-1) for v in mean.values()])
                self.assertLess((given - begin - moved / 8).abs().max().item(), 1e-6)
            self.assertGreater((moved / 8).abs().max().item(), 1e-3)
            for rank in ranks:
                rank.close()

    def test_finish_waits_for_the_others_and_all_get_one_mean(self):
        with Node(2) as node:
            scripts = Scripts(node, 2)
            first = []
            waiting = threading.Thread(target=lambda: first.append(scripts.ranks[0].finish()))
            waiting.start()
            for _ in range(30):
                scripts.noise(1)
            self.assertEqual(first, [])
            self.assertEqual(scripts.ranks[1].steps, 30)
            second = scripts.ranks[1].finish()
            waiting.join()
            self.assertTrue(equal(list(first[0].values()), list(second.values())))
            scripts.noise(1)
            self.assertEqual(scripts.ranks[1].steps, 30)
            scripts.close()

    def test_finish_with_its_time_over_or_interrupted_gives_the_mean_of_now(self):
        with Node(2) as node:
            scripts = Scripts(node, 2)
            for k in (0, 1):
                scripts.noise(k)
            one, other = scripts.ranks
            mean = one.finish(timeout=0.0)
            self.assertEqual(set(mean), {"weight", "bias"})
            scripts.noise(1)
            self.assertEqual(other.steps, 2)
            timer = interrupt_the_next_wait(one)
            mean = one.finish()
            timer.join()
            apart = (mean["weight"] - other.mean_state_dict()["weight"]).abs().max().item()
            self.assertLess(apart, 1e-5)
            scripts.close()

    def test_a_script_in_a_plain_loop_has_the_mean_of_a_run_whose_node_has_left(self):
        with Node(2, "--gradients", "8", "--share", "equal", "--no-save") as node:
            scripts = Scripts(node, 2)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")

                def ended():
                    for k in (0, 1):
                        scripts.noise(k)
                    return node.process.poll() is not None

                until("the end of the node", ended)
                for _ in range(3):
                    scripts.noise(0)
            said = [str(w.message) for w in caught]
            told = "has done its share of the run: steps of its script are in no rank now"
            self.assertEqual(sorted(said), [f"rank 0 {told}", f"rank 1 {told}"])
            self.assertEqual([rank.steps for rank in scripts.ranks], [4, 4])
            self.assertTrue(all(rank.stopped and not rank.alone for rank in scripts.ranks))
            one, other = (rank.finish() for rank in scripts.ranks)
            self.assertTrue(equal(list(one.values()), list(other.values())))
            self.assertFalse(torch.equal(one["weight"], scripts.models[0].weight))
            self.assertTrue(
                torch.equal(one["weight"], scripts.ranks[0].mean_state_dict()["weight"])
            )
            with scripts.ranks[1].mean() as model:
                self.assertTrue(torch.equal(one["weight"], model.weight))
            self.assertFalse(scripts.ranks[0].keep({}))
            with self.assertRaisesRegex(RuntimeError, "the run is over"):
                scripts.ranks[0].checkpoint()
            scripts.close()

    def test_after_finish_the_node_needs_nothing_more_of_a_script_that_stays_open(self):
        with Node(1, "--no-save") as node:
            model = linear()
            rank = grapevine.join(model, optimizer := sgd(model), node.path)
            step(model, optimizer)
            mean = rank.finish()
            self.assertEqual(node.process.wait(PATIENCE_S), 0)
            self.assertTrue(equal(list(mean.values()), list(rank.finish().values())))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                rank.close()

    def test_a_mean_within_a_mean_leaves_the_model_the_mean(self):
        with Node() as node:
            model = linear()
            optimizer = sgd(model)
            with grapevine.join(model, optimizer, node.path) as rank:
                with rank.mean():
                    with rank.mean():
                        pass
                    for use in (lambda: step(model, optimizer), rank.step, rank.finish):
                        with self.assertRaisesRegex(RuntimeError, "the model is the mean of all"):
                            use()
                step(model, optimizer)
                self.assertEqual(rank.steps, 1)

    def test_there_is_no_mean_of_a_rank_that_is_closed(self):
        with Node() as node:
            with grapevine.join(linear(), None, node.path) as rank:
                rank.step()
            asked = (rank.finish, rank.mean_state_dict, rank.mean().__enter__,
                     lambda: rank.save_mean("model.pt"), rank.kept, lambda: rank.keep({}),
                     rank.checkpoint)
            for ask in asked:
                with self.assertRaisesRegex(RuntimeError, "rank 0 is closed: ask .* before close"):
                    ask()

    def test_there_is_no_mean_while_the_node_is_gone_and_the_last_one_waits_for_it(self):
        with Node() as node:
            model = linear()
            rank = grapevine.join(model, None, node.path, alone=0.0)
            node.kill()
            with self.assertWarns(UserWarning), self.assertRaises(grapevine.NodeGone):
                rank.mean_state_dict()
            for ask in (rank.mean_state_dict, rank.mean().__enter__, rank.kept):
                with self.assertRaisesRegex(grapevine.NodeGone, "not available: the node is gone"):
                    ask()
            with self.assertRaisesRegex(grapevine.NodeGone, "the node has been gone for"):
                rank.finish()
            rank.close()
        with Node() as node:
            model = linear()
            rank = grapevine.join(model, None, node.path)
            node.kill()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rank.step()
                self.assertTrue(rank.alone)
                node.start()
                self.assertTrue(torch.equal(rank.finish()["weight"], model.weight))
            rank.close()

    def test_a_file_that_cannot_be_written_is_refused_before_anybody_waits(self):
        with Node() as node, grapevine.join(linear(), None, node.path) as rank:
            pipe = os.path.join(node.folder, "pipe")
            os.mkfifo(pipe)
            for path, why in {
                "": "path is '', accepted: the path of a file",
                node.folder: "not of a folder",
                pipe: "not of a folder or device",
                node.folder + "/none/mean.pt": "cannot be written: No such file",
                None: "path is a NoneType, accepted",
            }.items():
                with self.assertRaisesRegex(ValueError, why):
                    rank.save_mean(path)
            rank.step()
            self.assertEqual(rank.steps, 1)

    def test_within_the_mean_a_mean_is_the_same_and_nobody_finishes(self):
        with Node(2) as node:
            scripts = Scripts(node, 2)
            scripts.noise(0)
            with warnings.catch_warnings(), scripts.ranks[0].mean() as model:
                warnings.simplefilter("error")
                mean = scripts.ranks[0].mean_state_dict()
                self.assertEqual(mean["weight"].shape, model.weight.shape)
                with self.assertRaisesRegex(RuntimeError, "is the mean of all ranks now"):
                    scripts.ranks[0].finish()
            scripts.finish()
            scripts.close()

    def test_a_rank_left_or_lost_within_the_mean_leaves_the_model_memory_of_its_own(self):
        for end in ("close", "kill"):
            with self.subTest(end), Node() as node, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = linear()
                rank = grapevine.join(model, None, node.path)
                front = model.weight.data_ptr()
                own = model.weight.detach().clone()
                with rank.mean():
                    if end == "close":
                        rank.close()
                    else:
                        node.kill()
                        self.assertRaises(grapevine.NodeGone, rank.mean_state_dict)
                self.assertNotEqual(model.weight.data_ptr(), front)
                self.assertTrue(torch.equal(model.weight, own))
                rank.close()

    def test_a_mean_that_inference_mode_asked_for_can_be_trained(self):
        with Node() as node, grapevine.join(linear(), None, node.path) as rank:
            with torch.inference_mode():
                mean = rank.mean_state_dict()
                with rank.mean() as model:
                    model(torch.zeros(1, 1000))
            again = linear()
            again.load_state_dict(mean, assign=True)
            step(again, sgd(again))
            step(rank.model, sgd(rank.model))

    def test_a_mean_saved_by_all_scripts_in_one_file_is_whole(self):
        with Node(3) as node:
            scripts = Scripts(node, 3)
            for k in range(3):
                scripts.noise(k)
            path = os.path.join(node.folder, "model.pt")
            with ThreadPoolExecutor(3) as pool:
                means = list(pool.map(lambda rank: rank.save_mean(path), scripts.ranks))
            saved = torch.load(path, weights_only=True)
            for mean in means:
                self.assertTrue(equal(list(saved.values()), list(mean.values())))
            self.assertEqual([f for f in os.listdir(node.folder) if "part" in f], [])
            scripts.close()

    def test_who_finishes_is_told_for_whom_it_waits(self):
        with Node(2) as node:
            scripts = Scripts(node, 1)
            scripts.noise(0)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                scripts.ranks[0].finish(timeout=1.0)
            said = [str(w.message) for w in caught]
            empty = "rank 0 has finished and waits for rank 1, which has no script"
            self.assertEqual(said[:1], [empty])
            scripts.close()

    def test_a_script_that_gives_a_question_up_sits_down_at_its_own_rank_again(self):
        with Node(2) as node:
            model = linear()
            with grapevine.join(model, None, node.path, rank=1) as rank:
                rank.finish(timeout=0.0)
                self.assertFalse(rank.alone)
                self.assertEqual(rank.rank, 1)

    def test_the_run_has_gone_as_far_as_all_ranks_together(self):
        with Node(2) as node:
            scripts = Scripts(node, 2)
            for _ in range(3):
                scripts.noise(0)
            scripts.noise(1)
            self.assertEqual([rank.steps for rank in scripts.ranks], [3, 1])
            self.assertEqual(scripts.ranks[1].run_steps, 4)
            scripts.close()

    def test_a_loss_that_the_script_tells_is_the_ranks_in_the_status(self):
        with tempfile.TemporaryDirectory(prefix="gv-") as folder:
            address = "unix:" + os.path.join(folder, "node.sock")
            with Node(1, "--listen", address) as node:
                with grapevine.join(linear(), None, node.path) as rank:
                    rank.loss = 0.125

                    def shown():
                        rank.step()
                        return grapevine.status(address)["loss"] == 0.125

                    until("the loss in the status", shown)

    def test_what_a_script_has_measured_of_the_mean_is_in_the_status(self):
        with tempfile.TemporaryDirectory(prefix="gv-") as folder:
            address = "unix:" + os.path.join(folder, "node.sock")
            with Node(1, "--listen", address) as node:
                with grapevine.join(linear(), None, node.path) as rank:
                    rank.step()
                    with rank.mean():
                        self.assertTrue(rank.report(val_loss=torch.tensor(0.125), passes=3))
                    script = grapevine.status(address)["guests"]["scripts"][0]
                    said = {"passes": 3, "val_loss": 0.125}
                    self.assertEqual({k: m["value"] for k, m in script["reported"].items()}, said)
                    self.assertEqual(script["reported"]["val_loss"]["steps"], 1)
                    for wrong, line in (
                        ({}, "report of 0 names, 2 with the earlier ones, accepted: 1 to 8 in all"),
                        ({f"n{k}": 0 for k in range(7)}, "report of 7 names, 9 with the earlier"),
                        ({"Loss": 1}, "report of 'Loss', accepted: names of 1 to 32 characters"),
                        ({"n" * 33: 1}, "accepted: names of 1 to 32 characters a to z, 0 to 9 and"),
                        ({"a": float("nan")}, "report of a is nan, accepted: a finite number"),
                        ({"a": torch.zeros(2)}, "accepted: a finite number"),
                        ({"a": "much"}, "report of a is 'much', accepted: a finite number"),
                    ):
                        with self.assertRaisesRegex(ValueError, re.escape(line)):
                            rank.report(**wrong)
                    self.assertTrue(rank.report(val_loss=1))  # and it has not been sent away

    def test_nothing_is_reported_to_a_node_that_is_gone_or_has_ended(self):
        with Node(1) as node:
            rank = grapevine.join(linear(), None, node.path)
            rank.step()
            node.kill()
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                self.assertFalse(rank.report(val_loss=1))
            self.assertIn("the node is gone", str(said[0].message))
            self.assertFalse(rank.report(val_loss=1))
            rank.close()

    def test_buffers_are_averaged_for_means_and_never_gossiped(self):
        with Node(2) as node:
            models = [nn.BatchNorm1d(4) for _ in range(2)]
            optimizers = [sgd(model) for model in models]
            ranks = [
                grapevine.join(m, o, node.path) for m, o in zip(models, optimizers)
            ]
            for k, (model, optimizer) in enumerate(zip(models, optimizers)):
                model.running_mean = torch.full((4,), float(k))  # another buffer than was joined
                optimizer.step()
            self.assertEqual(models[1].running_mean.tolist(), [1.0] * 4)
            for rank in ranks:
                self.assertEqual(rank.mean_state_dict()["running_mean"].tolist(), [0.5] * 4)
                with rank.mean() as model:
                    self.assertEqual(model.running_mean.tolist(), [0.5] * 4)
            self.assertEqual(models[0].running_mean.tolist(), [0.0] * 4)
            for rank in ranks:
                rank.close()

    def test_statistics_of_ranks_that_have_computed_are_averaged_and_no_others(self):
        with Node(3) as node:
            models = [nn.BatchNorm1d(4, momentum=1.0) for _ in range(2)]
            ranks = [grapevine.join(model, None, node.path) for model in models]
            models[1](torch.randn(64, 4) * 2 + 10)
            ranks[1].step()
            mean = ranks[0].mean_state_dict()
            self.assertTrue(torch.equal(mean["running_mean"], models[1].running_mean))
            for rank in ranks:
                rank.close()

    def test_a_script_that_comes_back_has_the_statistics_of_its_rank(self):
        with Node() as node:
            model = nn.BatchNorm1d(4)
            model(torch.randn(64, 4) * 2 + 10)
            with grapevine.join(model, None, node.path) as rank:
                rank.step()
            again = nn.BatchNorm1d(4)
            with join_when_free(again, None, node) as rank:
                self.assertTrue(torch.equal(again.running_mean, model.running_mean))
                self.assertTrue(torch.equal(again.running_var, model.running_var))
                rank.step()
                mean = rank.mean_state_dict()
                self.assertTrue(torch.equal(mean["running_var"], model.running_var))

    def test_buffers_of_any_kind_that_are_alike_in_all_scripts_are_so_in_the_mean(self):
        def make():
            model = nn.Linear(2, 2)
            for name, values in {
                "mask": torch.full((3, 3), float("-inf")).triu(1),
                "unset": torch.tensor(float("nan")),
                "wide": torch.tensor([16777217.0, 1e300, 0.1], dtype=torch.float64),
                "low": torch.full((2,), 0.3, dtype=torch.bfloat16),
                "empty": torch.zeros(0),
                "whole": torch.tensor([2**40]),
            }.items():
                model.register_buffer(name, values)
            model.none = nn.Parameter(torch.zeros(0, 4))
            return model

        with Node(3) as node:
            models = [make() for _ in range(3)]
            ranks = [grapevine.join(model, None, node.path) for model in models]
            for rank in ranks:
                rank.step()
            own = models[0].state_dict()
            with ThreadPoolExecutor(3) as pool:
                for mean in [ranks[0].mean_state_dict(), *pool.map(lambda r: r.finish(), ranks)]:
                    self.assertEqual(list(mean), list(own))
                    for name, value in own.items():
                        self.assertEqual((mean[name].dtype, mean[name].shape),
                                         (value.dtype, value.shape))
                        self.assertTrue(torch.equal(mean[name].nan_to_num(9), value.nan_to_num(9)),
                                        name)
            for rank in ranks:
                rank.close()

    def test_fp64_is_averaged_in_fp64(self):
        with Node(2) as node:
            models = [nn.Linear(2, 2), nn.Linear(2, 2)]
            for k, model in enumerate(models):
                model.register_buffer("wide", torch.tensor(1.0 + k * 2**-40, dtype=torch.float64))
            ranks = [grapevine.join(model, None, node.path) for model in models]
            for rank in ranks:
                rank.step()
            self.assertEqual(ranks[0].mean_state_dict()["wide"].item(), 1.0 + 2**-41)
            for rank in ranks:
                rank.close()

    def test_ranks_agree_by_gossip_alone(self):
        with Node(2) as node:
            scripts = Scripts(node, 2)
            one, other = scripts.models
            with torch.no_grad():
                one.weight.add_(1.0)
            scripts.ranks[0].step()

            def agree():
                for rank in scripts.ranks:
                    rank.step()
                return (one.weight - other.weight).abs().max().item() < 1e-4

            until("two ranks that agree", agree)
            scripts.close()

    def test_a_script_that_is_killed_leaves_the_others_alone(self):
        joined = """if True:
            import sys
            import torch
            from torch import nn
            import grapevine
            from networks import sgd
            model = nn.Linear(100, 100)
            optimizer = sgd(model)
            rank = grapevine.join(model, optimizer, sys.argv[1])
            while True:
                for parameter in model.parameters():
                    parameter.grad = torch.randn_like(parameter)
                optimizer.step()
                print(rank.rank, flush=True)
        """
        with Node(3) as node:
            scripts = Scripts(node, 2)
            third = subprocess.Popen(
                [sys.executable, "-c", joined, node.path], stdout=subprocess.PIPE, text=True
            )
            self.assertEqual(third.stdout.readline(), "2\n")  # it has made a step
            third.kill()
            self.assertEqual(third.wait(), -signal.SIGKILL)
            third.stdout.close()
            for _ in range(20):
                scripts.noise(0)
                scripts.noise(1)
            self.assertEqual([rank.steps for rank in scripts.ranks], [20, 20])
            self.assertEqual(scripts.ranks[0].ranks, 3)  # its rank gossips on
            scripts.close()


class Copying(nn.Linear):
    """Its state_dict is made anew by itself."""

    def state_dict(self, *given, **options):
        return {"of " + k: v.clone() for k, v in super().state_dict(*given, **options).items()}


def with_hook(hook):
    def make():
        model = nn.Linear(4, 4)
        model._register_state_dict_hook(hook)
        return model
    return make


def with_another_state_dict():
    """As adapters are often saved: a function of the model in the place of the method."""
    model = nn.Linear(4, 4)
    whole = model.state_dict
    model.state_dict = lambda *_, **__: {"w": whole()["weight"].half().float()}
    return model


def tied_across():
    """Two weights on one memory, one of them transposed, which comes first."""
    model = nn.ModuleList([nn.Linear(3, 4, bias=False), nn.Linear(4, 3, bias=False)])
    model[0].weight.data = model[1].weight.data.t()
    return model


class StateDicts(unittest.TestCase):
    MODELS = {
        "a hook that copies": with_hook(
            lambda module, state, *_: {k: v.detach().clone() for k, v in state.items()}),
        "a hook that adds": with_hook(
            lambda module, state, *_: state.__setitem__("product", module.weight @ module.weight)),
        "an override": lambda: Copying(4, 4),
        "another function": with_another_state_dict,
        "transposed twins": tied_across,
        "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
        "bf16": lambda: nn.Linear(4, 4).bfloat16(),
        "channels last": lambda: nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last),
    }

    def test_the_mean_is_what_the_models_own_state_dict_makes_of_it(self):
        for name, make in self.MODELS.items():
            with self.subTest(name), Node(2) as node:
                models = [make() for _ in range(2)]
                ranks = [grapevine.join(model, None, node.path) for model in models]
                with torch.no_grad():
                    for k, model in enumerate(models):
                        for parameter in {p.data_ptr(): p for p in model.parameters()}.values():
                            parameter.add_(k)
                for rank in ranks:
                    rank.step()
                mean = ranks[0].mean_state_dict()
                own = models[0].state_dict()
                self.assertEqual(list(mean), list(own))
                with ranks[0].mean() as model:
                    now = {k: v.detach().clone() for k, v in model.state_dict().items()}
                for key, value in mean.items():
                    self.assertTrue(torch.equal(value, now[key]), key)
                    self.assertEqual(value.dtype, own[key].dtype)
                moved = [k for k in own if not torch.allclose(mean[k].float(), own[k].float())]
                self.assertTrue(moved)
                before = [value.clone() for value in own.values()]
                for value in mean.values():
                    value.zero_()  # it is nobody else's memory
                self.assertTrue(equal(before, list(models[0].state_dict().values())))
                for rank in ranks:
                    rank.close()

    def test_transposed_twins_stay_tied_and_are_one_mean(self):
        with Node() as node:
            model = tied_across()
            with grapevine.join(model, None, node.path) as rank:
                with torch.no_grad():
                    model[0].weight.copy_(torch.arange(12.0).view(4, 3))
                rank.step()
                for state in (rank.mean_state_dict(), rank.finish()):
                    self.assertEqual(state["0.weight"].tolist(), model[0].weight.tolist())
                    self.assertEqual(state["1.weight"].tolist(), state["0.weight"].t().tolist())

    def test_a_file_of_the_node_has_every_name_of_the_model(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = nn.Embedding(5, 3)
                self.head = nn.Linear(3, 5, bias=False)
                self.head.weight = self.embedding.weight
                self.again = self.head
                self.pair = tied_across()
                self.register_buffer("count", torch.tensor(0.1, dtype=torch.float64))

        with Node(1, "--out", "run") as node:
            model = Tied()
            rank = grapevine.join(model, None, node.path)
            rank.step()
            mean = rank.finish()
            rank.close()
            self.assertEqual(node.process.wait(PATIENCE_S), 0)
            saved = torch.load(os.path.join(node.folder, "run", "model.pt"), weights_only=True)
            self.assertEqual(set(saved), set(mean))
            for name, value in mean.items():
                self.assertEqual(saved[name].dtype, value.dtype)
                self.assertTrue(torch.equal(saved[name], value), name)
            Tied().load_state_dict(saved)


class Threads(unittest.TestCase):
    def test_another_thread_asks_for_means_and_leaves_blobs_while_one_trains(self):
        with Node() as node:
            model = nn.Linear(64, 64)
            optimizer = sgd(model, 1e-3)
            rank = grapevine.join(model, optimizer, node.path)
            failed, asked, over = [], [], threading.Event()

            def asks():
                try:
                    while not over.is_set():
                        self.assertEqual(set(rank.mean_state_dict()), {"weight", "bias"})
                        rank.keep({"asked": len(asked)})
                        self.assertEqual(rank.kept()["asked"], len(asked))
                        asked.append(1)
                except Exception as error:  # which a thread would hide
                    failed.append(error)

            thread = threading.Thread(target=asks)
            thread.start()
            made = 0

            def trained():
                nonlocal made
                made += 1
                optimizer.zero_grad()
                model(torch.randn(8, 64)).square().mean().backward()
                optimizer.step()
                return failed or (made >= 100 and len(asked) >= 20)

            until("a hundred steps and twenty answers", trained)
            over.set()
            thread.join()
            self.assertEqual((failed, rank.steps, rank.alone), ([], made, False))
            rank.close()

    def test_in_another_thread_a_state_dict_that_is_made_anew_is_refused(self):
        with Node() as node, grapevine.join(Copying(4, 4), None, node.path) as rank:
            with ThreadPoolExecutor(1) as pool:
                with self.assertRaisesRegex(RuntimeError, "in the thread that trains it"):
                    pool.submit(rank.mean_state_dict).result()
                with self.assertRaisesRegex(RuntimeError, "in the thread that trains it"):
                    pool.submit(rank.mean().__enter__).result()
            self.assertEqual(set(rank.mean_state_dict()), {"of weight", "of bias"})


class Shares(unittest.TestCase):
    def test_shares_are_disjoint_cover_the_data_and_change_their_order(self):
        data = list(range(103))
        with Node(2) as node:
            scripts = Scripts(node, 2)
            samplers = [rank.sampler(data) for rank in scripts.ranks]
            passes = [[list(sampler) for sampler in samplers] for _ in range(2)]
            self.assertEqual(sorted(passes[0][0] + passes[0][1]), data)
            for one, other in zip(*passes):
                self.assertEqual(sorted(one), sorted(other))
                self.assertNotEqual(one, other)
            self.assertEqual([len(s) for s in samplers], [len(share) for share in passes[0]])
            again = [list(rank.sampler(data)) for rank in scripts.ranks]
            self.assertEqual(again, passes[0])
            self.assertNotEqual(list(scripts.ranks[0].sampler(data, seed=1)), again[0])
            scripts.close()

    def test_a_pass_ends_early_when_no_more_steps_are_taken(self):
        with Node(1, "--gradients", "10") as node:
            model = linear()
            optimizer = sgd(model)
            with grapevine.join(model, optimizer, node.path) as rank:
                taken = 0
                for _ in rank.sampler(range(1000)):
                    step(model, optimizer)
                    taken += 1
                self.assertTrue(rank.stopped)
                self.assertEqual(rank.steps, 10)
                self.assertLessEqual(taken, 11)
                rank.finish()


if __name__ == "__main__":
    unittest.main()
