"""A rank's samples: how many are enough, where they go on, states, loaders that draw ahead."""

import math
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


class Run:
    """The work of some ranks without a node. `hidden`: of what they took, not told so far."""

    def __init__(self, gradients=0):
        self.gradients, self.run_steps, self.hidden, self.counted = gradients, 0, 0, 0

    def told(self, gradients=0):
        self.gradients = self.gradients or gradients
        return self.run_steps - self.hidden


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
        for no_state in (None, {}, [1], {**state, "passes": -1}, {**state, "samples": "3"}):
            with self.assertRaisesRegex(ValueError, "^the state is .*, accepted: that of a sam"):
                Sampler(Place(), 40).load_state_dict(no_state)
        for epoch in (-1, 1.5, "2"):
            with self.assertRaisesRegex(ValueError, "^epoch is .*, accepted: 0 or a larger whole"):
                Sampler(Place(), 40).set_epoch(epoch)

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
        self.assertRegex(str(self.warned[0].message),
                         "^rank 3 has no samples: the data set has 3 for 4 ranks$")


class Counts(unittest.TestCase):
    def loop(self, sampler, work, batch, workers=0, each_step=lambda: None, every=1):
        """The whole loop of a script; the samples of its STEPs."""
        seen = []
        for batch in DataLoader(range(sampler.size), batch, sampler=sampler, num_workers=workers):
            seen += batch.tolist()
            sampler.share()
            sampler.rank.steps += 1
            work.run_steps += every
            each_step()
        return seen

    def test_one_iteration_is_the_whole_loop_and_takes_the_work_to_the_sample(self):
        for workers in (0, 2):
            for batch in (None, 8):
                with self.subTest(workers=workers, batch=batch):
                    work = Run(30)
                    sampler = Sampler(Place(), 50, partition=False, work=work, batch=batch)
                    seen = self.loop(sampler, work, 8, workers)
                    self.assertEqual((work.run_steps, len(seen)), (30, 240))
                    for k in range(0, 200, 50):
                        self.assertEqual(sorted(seen[k : k + 50]), list(range(50)))
                    self.assertNotEqual(seen[:50], seen[50:100])
                    self.assertEqual(list(sampler), [])

    def test_what_others_take_is_not_taken_again(self):
        for workers in (0, 2):
            with self.subTest(workers=workers):
                work = Run(40)
                def others():
                    work.run_steps += 3
                sampler = Sampler(Place(1, 4), 50, partition=False, work=work, batch=8)
                self.loop(sampler, work, 8, workers, others)
                # Those that a loader had drawn when the others took the last are its own.
                self.assertIn(work.run_steps, range(40, 41 + (4 * 6 if workers else 0)))
                self.assertEqual(len(sampler), 80)

    def test_epochs_are_as_many_gradients_as_their_samples_make_and_one_rank_says_so(self):
        work = Run()
        one, other = (
            Sampler(Place(k, 2), 50, epochs=3, partition=False, work=work) for k in range(2)
        )
        self.assertEqual(len(one), 75)
        streams = [iter(DataLoader(range(50), 8, sampler=s)) for s in (one, other)]
        taken = [0, 0]
        for k in [0, 0, 0, 1] * 20:  # one is three times as fast
            if next(streams[k], None) is None:
                break
            (one, other)[k].share()
            work.run_steps += 1
            taken[k] += 1
        self.assertEqual((work.gradients, sum(taken)), (19, 19))
        self.assertGreater(taken[0], 2 * taken[1])
        self.assertEqual(len(other), math.ceil(19 * 8 / 2))

    def test_with_the_size_of_a_batch_epochs_are_known_before_the_first_step(self):
        work = Run()
        sampler = Sampler(Place(0, 4), 100, epochs=2, partition=False, work=work, batch=10)
        self.assertEqual((work.gradients, len(sampler)), (20, 50))
        second = Sampler(Place(1, 4), 100, epochs=9, partition=False, work=work, batch=10)
        self.assertEqual((work.gradients, len(second)), (20, 50))

    def test_a_STEP_of_four_optimizer_steps_is_four_gradients(self):
        for batch in (None, 5):
            with self.subTest(batch=batch):
                work = Run()
                sampler = Sampler(Place(), 100, epochs=2, partition=False, work=work, every=4,
                                  batch=batch)
                loader = iter(DataLoader(range(100), 5, sampler=sampler))
                steps = 0
                while next(loader, None) is not None:
                    steps += 1
                    if steps % 4 == 0:
                        sampler.share()
                        work.run_steps += 4
                self.assertEqual((work.gradients, steps), (40, 40))

    def test_what_was_an_estimate_of_ranks_that_have_died_is_taken(self):
        work = Run(20)
        work.hidden = 5
        sampler = Sampler(Place(0, 2), 50, partition=False, work=work, batch=8)
        def others():
            if work.run_steps == 10:
                work.run_steps = 20
            elif work.run_steps == 21:
                work.run_steps, work.hidden = 15, 0  # they have not taken them
        seen = self.loop(sampler, work, 8, 0, others)
        self.assertEqual((work.run_steps, len(seen)), (20, (10 + 1 + 5) * 8))

    def test_fewer_samples_than_two_batches_end_with_the_epochs(self):
        work = Run()
        sampler = Sampler(Place(), 20, epochs=1, partition=False, work=work)
        self.assertEqual(sorted(self.loop(sampler, work, 32)), list(range(20)))

    def test_with_a_share_one_loop_walks_it_again_and_again(self):
        work = Run(10)
        sampler = Sampler(Place(1, 2), 20, work=work, batch=5)
        seen = self.loop(sampler, work, 5)
        self.assertEqual(len(set(seen)), 10)
        self.assertTrue(all(seen.count(index) == 5 for index in seen))

    def test_where_each_rank_has_a_share_of_the_work_epochs_are_of_its_own(self):
        for partition, distinct in ((True, 10), (False, 20)):
            sampler = Sampler(Place(1, 2), 20, epochs=2, partition=partition)
            self.assertEqual(len(sampler), 20)
            seen = list(sampler)
            self.assertEqual((len(seen), len(set(seen))), (20, distinct))
            later = Sampler(Place(1, 2), 20, epochs=2, partition=partition)
            later.load_state_dict(sampler.state_dict())
            self.assertEqual(list(later), [])

    def test_ranks_walk_the_data_in_orders_of_their_own(self):
        work = Run(5)
        orders = [
            drawn(Sampler(Place(k, 3), 50, partition=False, work=work, batch=10), 50)
            for k in range(3)
        ]
        self.assertEqual(len({tuple(order) for order in orders}), 3)
        self.assertTrue(all(sorted(order) == list(range(50)) for order in orders))

    def test_it_goes_on_in_the_pass_where_the_last_script_was_by_its_STEPs(self):
        for workers in (0, 2):
            with self.subTest(workers=workers):
                work = Run(100)
                def fresh(at=None):
                    return Sampler(Place(), 50, partition=False, work=work, batch=8, at=at)
                first = fresh()
                loader = DataLoader(range(50), 8, sampler=first, num_workers=workers)
                seen, share = trained(loader, first, 10)
                self.assertEqual(share[1:], (1, 30))
                second = fresh(share)
                second.set_epoch(0)
                rest = drawn(second, 70)
                self.assertEqual(sorted(seen[50:] + rest[:20]), list(range(50)))
                self.assertEqual(sorted(rest[20:]), list(range(50)))
                third = fresh()
                third.load_state_dict(second.state_dict())
                self.assertEqual(drawn(third, 50), drawn(fresh(Share(share.key, 3, 0)), 50))

    def test_drawn_to_its_end_without_a_STEP_it_has_an_end(self):
        for size in (50, 200000):
            sampler = Sampler(Place(), size, partition=False, work=Run(1000))
            self.assertEqual(len(list(sampler)), max(size, 131072))

    def test_a_run_that_has_stopped_hands_out_nothing(self):
        place, work = Place(), Run(100)
        sampler = Sampler(place, 50, partition=False, work=work, batch=8)
        def stop():
            place.stopped = work.run_steps >= 3
        self.assertEqual(len(self.loop(sampler, work, 8, 0, stop)), 24)
        self.assertEqual(list(sampler), [])


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
