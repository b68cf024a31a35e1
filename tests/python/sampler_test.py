"""A rank's share of the data: where it goes on, epochs, states, loaders that draw ahead."""

import os
import unittest
import warnings

import torch
from torch.utils.data import DataLoader

import grapevine
from grapevine.sampler import Sampler, Share
from networks import join_when_free, linear, sgd, step
from node import Node


class Place:
    """A rank without a node."""

    def __init__(self, rank=0, ranks=1):
        self.rank, self.ranks, self.steps, self.stopped = rank, ranks, 0, False


def drawn(sampler, count):
    """So many samples of a pass, of which the script then makes no more."""
    samples = iter(sampler)
    return [next(samples) for _ in range(count)]


def trained(loader, sampler, steps):
    """The samples of so many STEPs of a batch each, and the share after the last."""
    seen, share = [], None
    for batch, _ in zip(loader, range(steps)):
        seen += batch.tolist()
        share = sampler.share()
    return seen, share


class Shares(unittest.TestCase):
    def setUp(self):
        caught = warnings.catch_warnings(record=True)
        self.warned = caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("always")

    def test_a_share_goes_on_behind_the_samples_of_the_last_STEP(self):
        for workers in (0, 2):
            for batch in (1, 8):
                with self.subTest(workers=workers, batch=batch):
                    first = Sampler(Place(), 200)
                    loader = DataLoader(range(200), batch, sampler=first, num_workers=workers)
                    seen, share = trained(loader, first, 10)
                    self.assertEqual(share[1:], (0, 10 * batch))
                    rest = list(Sampler(Place(), 200, at=share))
                    self.assertEqual(sorted(seen + rest), list(range(200)))

    def test_the_passes_before_count_and_a_whole_one_is_not_begun_again(self):
        first = Sampler(Place(), 20)
        loader = DataLoader(range(20), 8, sampler=first)
        for _ in range(2):
            _, share = trained(loader, first, 3)
        self.assertEqual(share[1:], (1, 20))
        again = Sampler(Place(), 20, at=share)
        third = [*Sampler(Place(), 20, at=Share(share.key, 2, 0))]
        self.assertEqual(list(again), third)

    def test_other_data_begin_anew(self):
        share = Share(Sampler(Place(), 20)._key(), 1, 5)
        fresh = list(Sampler(Place(), 20, seed=1))
        self.assertEqual(list(Sampler(Place(), 20, seed=1, at=share)), fresh)
        self.assertEqual(len(list(Sampler(Place(), 30, at=share))), 30)
        self.assertEqual(len(list(Sampler(Place(0, 2), 20, at=share))), 10)

    def test_an_epoch_is_an_order_and_comes_back_as_it_was(self):
        one, other = Sampler(Place(), 20), Sampler(Place(), 20)
        orders = []
        for epoch in range(3):
            one.set_epoch(epoch)
            orders.append(list(one))
        self.assertEqual(len({tuple(order) for order in orders}), 3)
        other.set_epoch(2)
        self.assertEqual(list(other), orders[2])
        self.assertEqual([list(Sampler(Place(), 20))], orders[:1])

    def test_a_script_that_counts_its_epochs_from_0_again_sees_no_order_twice(self):
        one = Sampler(Place(), 20)
        orders = [list(one) for _ in range(4)]
        later = Sampler(Place(), 20, at=Share(one._key(), 1, 5))
        later.set_epoch(0)
        self.assertEqual(list(later), orders[1][5:])
        for epoch in (1, 2):
            later.set_epoch(epoch)
            self.assertEqual(list(later), orders[1 + epoch])

    def test_a_script_that_knows_its_epoch_goes_on_in_it(self):
        one = Sampler(Place(), 20)
        orders = [list(one) for _ in range(3)]
        later = Sampler(Place(), 20, at=Share(one._key(), 1, 5))
        later.set_epoch(1)
        self.assertEqual(list(later), orders[1][5:])
        later.set_epoch(2)
        self.assertEqual(list(later), orders[2])

    def test_a_state_is_where_the_last_sample_was_drawn(self):
        first = Sampler(Place(), 40)
        list(first)
        seen = drawn(first, 25)
        state = first.state_dict()
        second = Sampler(Place(), 40)
        second.load_state_dict(state)
        self.assertEqual(second.state_dict(), state)
        self.assertEqual(sorted(seen + list(second)), list(range(40)))
        self.assertEqual(list(second), list(Sampler(Place(), 40, at=Share(second._key(), 2, 0))))
        with self.assertRaisesRegex(ValueError, "of 40 samples with seed 0, accepted: of 41"):
            Sampler(Place(), 41).load_state_dict(state)

    def test_a_pass_without_a_STEP_is_said(self):
        place = Place()
        sampler = Sampler(place, 10)
        list(sampler)
        place.steps = 1
        list(sampler)
        self.assertEqual(self.warned, [])
        list(sampler)
        self.assertRegex(str(self.warned[0].message), "no STEP in a whole pass")

    def test_a_rank_without_samples_is_said(self):
        Sampler(Place(3, 4), 3)
        self.assertRegex(str(self.warned[0].message), "^rank 3 has no samples: 3 for 4 ranks$")


class Ranks(unittest.TestCase):
    def train(self, rank, model, optimizer, samples):
        seen = []
        for index, _ in zip(rank.sampler(range(40)), range(samples)):
            seen.append(index)
            step(model, optimizer)
        return seen

    def test_a_script_that_comes_back_goes_on_in_its_share(self):
        with Node() as node:
            seen = []
            for samples in (25, 15, 10):
                model = linear()
                with join_when_free(model, optimizer := sgd(model), node) as rank:
                    seen += self.train(rank, model, optimizer, samples)
            self.assertEqual(sorted(seen[:40]), list(range(40)))
            self.assertEqual(seen[40:], list(Sampler(Place(), 40, at=Share(
                Sampler(Place(), 40)._key(), 1, 0)))[:10])

    def test_a_share_goes_on_from_a_checkpoint(self):
        with Node(1, "--out", "run") as node:
            model = linear()
            with grapevine.join(model, optimizer := sgd(model), node.path) as rank:
                seen = self.train(rank, model, optimizer, 25)
                self.assertTrue(os.path.isdir(os.path.join(node.folder, rank.checkpoint())))
                node.kill()
            node.start()
            model = linear()
            with grapevine.join(model, optimizer := sgd(model), node.path) as rank:
                self.assertEqual(rank.steps, 25)
                rest = self.train(rank, model, optimizer, 15)
                self.assertEqual(sorted(seen + rest), list(range(40)))

    def test_a_second_sampler_is_its_own(self):
        with Node() as node:
            model = linear()
            with grapevine.join(model, optimizer := sgd(model), node.path) as rank:
                self.train(rank, model, optimizer, 5)
                self.assertEqual(len(list(rank.sampler(range(40)))), 40)
                with self.assertRaisesRegex(ValueError, "a generator has no length"):
                    rank.sampler(index for index in range(3))


if __name__ == "__main__":
    unittest.main()
