"""Several scripts at one node: means, ends, shares of the data."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

import grapevine
from networks import equal, interrupt_the_next_wait, linear, sgd, step
from node import Node, until


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
