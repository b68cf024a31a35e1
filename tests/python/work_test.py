"""The work of a run is one pool for all scripts: how much it is, who takes it, how far it is."""

import contextlib
import importlib.util
import io
import math
import os
import pickle
import re
import subprocess
import sys
import textwrap
import unittest
import warnings

import torch
from torch.utils.data import DataLoader

import grapevine
from networks import equal, linear, sgd, step
from node import PROGRAM, Node

DATA = list(range(40))


class Scripts:
    """So many joined linear models at one node, in this process."""

    def __init__(self, node, count, **options):
        self.models = [linear() for _ in range(count)]
        self.optimizers = [sgd(model) for model in self.models]
        self.ranks = [
            grapevine.join(model, optimizer, node.path, **options)
            for model, optimizer in zip(self.models, self.optimizers)
        ]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.close()

    def step(self, k):
        step(self.models[k], self.optimizers[k])

    def loop(self, samplers, batch, turns, workers=0):
        """The loops of scripts that take turns, until one of them ends; the samples of each."""
        loaders = [iter(DataLoader(DATA, batch, sampler=s, num_workers=workers)) for s in samplers]
        seen = [[] for _ in samplers]
        for k in turns:
            got = next(loaders[k], None)
            if got is None:
                return seen
            seen[k] += got.tolist()
            self.step(k)
        return seen


def launch(script, *options, guests=3):
    """Real scripts of a launch, each a process; what they said, by rank."""
    with Node() as aside:  # for a folder that is its user's own
        path = os.path.join(aside.folder, "script.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(script))
        command = [PROGRAM, "launch", "--guests", str(guests), "--no-save", *options, "--",
                   sys.executable, "-W", "error", path]
        ran = subprocess.run(command, cwd=aside.folder, capture_output=True, text=True, timeout=300,
                             env={**os.environ, "OMP_NUM_THREADS": "1"})
    if ran.returncode:
        raise AssertionError(ran.stdout + ran.stderr)
    return [re.findall(r"^\[%d\] (.*)$" % k, ran.stdout, re.MULTILINE) for k in range(guests)]


HEAD = """
    import os, time
    import grapevine, torch
    from torch.utils.data import DataLoader
    from networks import linear, sgd, step

    def wait(name):
        while not os.path.exists(name):
            time.sleep(0.005)

    model = linear()
    optimizer = sgd(model)
"""


class Gradients(unittest.TestCase):
    def test_the_first_script_says_how_many_and_another_number_is_refused(self):
        with Node(3) as node, Scripts(node, 2, gradients=8) as scripts:
            one, other = scripts.ranks
            self.assertEqual((one.gradients, other.gradients, one.progress), (8, 8, 0))
            model = linear()
            with self.assertRaisesRegex(
                grapevine.Refused, "^gradients is 9, accepted: 8, as in this run, or none$"
            ):
                grapevine.join(model, sgd(model), node.path, gradients=9)
            scripts.step(0)
            scripts.step(0)
            scripts.step(1)
            self.assertEqual(other.progress, 3 / 8)

    def test_without_a_number_there_is_no_progress(self):
        with Node() as node, Scripts(node, 1) as scripts:
            scripts.step(0)
            self.assertTrue(math.isnan(scripts.ranks[0].progress))
            self.assertEqual(scripts.ranks[0].gradients, 0)

    def test_what_is_no_number_is_refused_in_a_line(self):
        model = linear()
        for gradients in (0, -1, 2.5, "9", True, 1 << 60):
            with self.assertRaisesRegex(ValueError, "^gradients is .*, accepted: 1 to"):
                grapevine.join(model, sgd(model), "/nowhere", gradients=gradients)
        with Node() as node, Scripts(node, 1) as scripts:
            for epochs in (0, -1, "3", math.inf, math.nan):
                with self.assertRaisesRegex(ValueError, "^epochs is .*, accepted: a number above"):
                    scripts.ranks[0].sampler(DATA, epochs=epochs)
            for batch in (0, 2.5, True):
                with self.assertRaisesRegex(ValueError, "^batch is .*, accepted: 1 or more"):
                    scripts.ranks[0].sampler(DATA, batch=batch)
            for seed in (None, 1.5, "1"):
                with self.assertRaisesRegex(ValueError, "^seed is .*, accepted: a whole number"):
                    scripts.ranks[0].sampler(DATA, seed=seed)
            with self.assertRaisesRegex(ValueError, "^timeout is '5', accepted: None, or seconds"):
                scripts.ranks[0].finish("5")

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "no NumPy here")
    def test_numbers_of_numpy_are_numbers(self):
        numpy = importlib.import_module("numpy")
        with Node() as node:
            model = linear()
            options = {"every": numpy.int64(2), "gradients": numpy.int32(8), "rank": numpy.int64(0)}
            with grapevine.join(model, sgd(model), node.path, **options) as rank:
                self.assertEqual(rank.gradients, 8)
                sampler = rank.sampler(
                    DATA, numpy.int64(3), epochs=numpy.float32(2), batch=numpy.int64(4)
                )
                self.assertTrue(sampler.counts)

    def test_a_gradient_is_a_step_of_the_optimizer_however_many_a_STEP_holds(self):
        with Node() as node, Scripts(node, 1, every=4, gradients=10) as scripts:
            rank = scripts.ranks[0]
            for _ in range(9):
                scripts.step(0)
            self.assertEqual((rank.steps, rank.run_steps, rank.stopped), (2, 8, False))
            scripts.step(0)
            rank.step()  # what is left of local steps
            self.assertEqual((rank.steps, rank.run_steps, rank.progress), (3, 10, 1))
            self.assertTrue(rank.stopped)

    def test_a_script_that_comes_when_all_is_taken_has_the_mean(self):
        with Node(2, "--gradients", "5") as node, Scripts(node, 1) as scripts:
            self.assertEqual(len(scripts.loop([scripts.ranks[0].sampler(DATA)], 8, [0] * 9)[0]), 40)
            mean = scripts.ranks[0].finish()
            with Scripts(node, 1) as late:
                rank = late.ranks[0]
                self.assertTrue(rank.stopped)
                self.assertEqual(list(rank.sampler(DATA)), [])
                own = [parameter.detach() for parameter in late.models[0].parameters()]
                self.assertTrue(equal(own, list(mean.values())))
                self.assertTrue(equal(list(rank.finish().values()), list(mean.values())))


class Loops(unittest.TestCase):
    def test_one_loop_takes_the_gradients_of_the_run_from_all_of_the_data(self):
        with Node(2, "--gradients", "12") as node, Scripts(node, 2) as scripts:
            samplers = [rank.sampler(DATA) for rank in scripts.ranks]
            one, other = scripts.loop(samplers, 8, [0, 0, 1] * 9)
            self.assertEqual((len(one), len(other)), (64, 32))
            self.assertEqual(sorted(one[:40]), DATA)
            self.assertEqual(scripts.ranks[0].progress, 1)
            self.assertEqual(list(samplers[1]), [])

    def test_epochs_are_of_all_ranks_and_the_first_that_knows_its_batch_says_how_many(self):
        with Node(2) as node, Scripts(node, 2) as scripts:
            samplers = [rank.sampler(DATA, epochs=2) for rank in scripts.ranks]
            one, other = scripts.loop(samplers, 8, [0, 0, 0, 1] * 9)
            self.assertEqual([rank.gradients for rank in scripts.ranks], [10, 10])
            self.assertEqual(len(one) + len(other), 80)
            self.assertEqual(scripts.ranks[0].progress, 1)
            self.assertEqual([len(sampler) for sampler in samplers], [40, 40])

    def test_with_local_steps_epochs_are_as_many(self):
        with Node() as node, Scripts(node, 1, every=2) as scripts:
            sampler = scripts.ranks[0].sampler(DATA, epochs=2)
            self.assertEqual(len(scripts.loop([sampler], 8, [0] * 30)[0]), 80)
            self.assertEqual(scripts.ranks[0].gradients, 10)

    def test_partition_keeps_the_share_and_a_script_that_counts_has_it_by_default(self):
        with Node(2) as node, Scripts(node, 2) as scripts:
            one, other = (rank.sampler(DATA, epochs=3, partition=True) for rank in scripts.ranks)
            halves = [set(samples) for samples in scripts.loop([one, other], 8, [0, 1] * 30)]
            self.assertEqual(halves[0] & halves[1], set())
            self.assertEqual(halves[0] | halves[1], set(DATA))
        with Node(2) as node, Scripts(node, 2) as scripts:
            one, other = (rank.sampler(DATA) for rank in scripts.ranks)
            self.assertEqual(sorted([*one, *other]), DATA)
            self.assertEqual(sorted(scripts.ranks[0].sampler(DATA, partition=False)), DATA)

    def test_where_each_rank_has_its_share_of_the_steps_it_has_its_share_of_the_data(self):
        with Node(2, "--share", "equal", "--gradients", "20") as node, Scripts(node, 2) as scripts:
            one, other = (rank.sampler(DATA) for rank in scripts.ranks)
            self.assertEqual(sorted([*one, *other]), DATA)
            self.assertEqual(scripts.ranks[0].progress, 0)

    def test_what_a_loader_has_drawn_ahead_is_told_as_over(self):
        with Node(2, "--gradients", "12") as node, Scripts(node, 2) as scripts:
            loader = DataLoader(DATA, 4, sampler=scripts.ranks[0].sampler(DATA), num_workers=2)
            batches = iter(loader)
            for _ in range(3):
                next(batches)
                scripts.step(0)
            while not scripts.ranks[1].stopped:
                scripts.step(1)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                ahead = 0
                for _ in batches:
                    scripts.step(0)
                    ahead += 1
            self.assertIn(ahead, range(1, 6))
            self.assertRegex(
                str(caught[0].message),
                "^rank 0 has (done its share of the|ended with its) run: steps of its script are "
                "in no rank now$",
            )
            self.assertLessEqual(scripts.ranks[1].run_steps, 13)

    def test_a_script_that_comes_back_goes_on_in_its_data_and_in_the_work(self):
        with Node(1, "--gradients", "15") as node:
            with Scripts(node, 1) as scripts:
                seen = scripts.loop([scripts.ranks[0].sampler(DATA)], 8, [0] * 7)[0]
            with Scripts(node, 1) as scripts:
                seen += scripts.loop([scripts.ranks[0].sampler(DATA)], 8, [0] * 30)[0]
            self.assertEqual(len(seen), 15 * 8)
            for k in range(0, 120, 40):
                self.assertEqual(sorted(seen[k : k + 40]), DATA)


class Processes(unittest.TestCase):
    def test_nobody_waits_for_a_script_that_stands_still_in_its_step(self):
        said = launch(HEAD + """
    rank = grapevine.join(model, optimizer)
    taken = 0
    for batch in DataLoader(range(1000), 8, sampler=rank.sampler(range(1000))):
        step(model, optimizer)
        taken += 1
        if rank.rank == 2:
            open("stands", "w").close()
            wait("over")
            break
        elif taken == 1:
            wait("stands")
    rank.finish()
    open("over", "w").close()
    print("took", taken, flush=True)
        """, "--gradients", "60")
        taken = [int(lines[-1].split()[1]) for lines in said]
        self.assertEqual(taken[2], 1)
        self.assertIn(sum(taken), (60, 61))

    def test_epochs_of_three_scripts_are_those_of_one(self):
        said = launch(HEAD + """
    rank = grapevine.join(model, optimizer)
    seen = 0
    sampler = rank.sampler(range(100), epochs=3, batch=5)
    schedule = grapevine.schedule(optimizer, rank, lambda done: 1 - done)
    for batch in DataLoader(range(100), 5, sampler=sampler):
        step(model, optimizer)
        schedule.step()
        seen += len(batch)
    rank.finish()
    print("saw", seen, rank.gradients, schedule.get_last_lr()[0], flush=True)
        """)
        seen = [int(lines[-1].split()[1]) for lines in said]
        self.assertIn(sum(seen) // 5, range(60, 63))
        self.assertEqual({lines[-1].split()[2] for lines in said}, {"60"})

    def test_a_script_that_says_another_number_fails_and_the_others_go_on(self):
        with self.assertRaisesRegex(
            AssertionError, "Refused: gradients is 31, accepted: 30, as in this run, or none"
        ):
            launch(HEAD + """
    if os.environ["GRAPEVINE_SEAT"] == "1":
        wait("begun")
    rank = grapevine.join(model, optimizer, gradients=30 + int(os.environ["GRAPEVINE_SEAT"]))
    open("begun", "w").close()
    for batch in DataLoader(range(100), 5, sampler=rank.sampler(range(100))):
        step(model, optimizer)
    rank.finish()
            """, guests=2)


class Schedules(unittest.TestCase):
    def rate(self, scripts, k):
        return scripts.optimizers[k].param_groups[0]["lr"]

    def test_the_rate_follows_the_work_of_all_ranks(self):
        with Node(2, "--gradients", "10") as node, Scripts(node, 2) as scripts:
            schedules = [
                grapevine.schedule(optimizer, rank, lambda done: 1 - done)
                for optimizer, rank in zip(scripts.optimizers, scripts.ranks)
            ]
            self.assertEqual(self.rate(scripts, 0), 0.05)
            for _ in range(3):
                scripts.step(0)
                schedules[0].step()
            self.assertAlmostEqual(self.rate(scripts, 0), 0.05 * 0.7)
            scripts.step(1)
            schedules[1].step()
            self.assertAlmostEqual(self.rate(scripts, 1), 0.05 * 0.6)
            self.assertEqual(schedules[1].get_last_lr(), [self.rate(scripts, 1)])

    def test_its_state_is_saved_and_loaded_without_the_rank(self):
        with Node(1, "--gradients", "10") as node, Scripts(node, 1) as scripts:
            rank, optimizer = scripts.ranks[0], scripts.optimizers[0]
            one = grapevine.schedule(optimizer, rank, lambda done: 1 - done)
            scripts.step(0)
            one.step()
            state = pickle.loads(pickle.dumps(one.state_dict()))
            other = grapevine.schedule(optimizer, rank, lambda done: 1 - done)
            other.load_state_dict(state)
            scripts.step(0)
            other.step()
            self.assertAlmostEqual(self.rate(scripts, 0), 0.05 * 0.8)

    def test_without_an_end_there_is_none_unless_a_sampler_counts_the_data(self):
        with Node() as node, Scripts(node, 1) as scripts:
            rank, optimizer = scripts.ranks[0], scripts.optimizers[0]
            with self.assertRaisesRegex(ValueError, "^no end of the run is known, .*--gradients N"):
                grapevine.schedule(optimizer, rank, lambda done: 1 - done)
            sampler = rank.sampler(DATA, epochs=1)
            one = grapevine.schedule(optimizer, rank, lambda done: 1 - done)
            rates = []
            for _ in DataLoader(DATA, 8, sampler=sampler):
                scripts.step(0)
                one.step()
                rates.append(self.rate(scripts, 0))
            self.assertEqual(rates[0], 0.05)
            self.assertAlmostEqual(rates[3], 0.05 * 0.2)
            self.assertAlmostEqual(rates[4], 0)

    def test_what_is_no_function_and_no_factor_is_refused_in_a_line(self):
        with Node(1, "--gradients", "10") as node, Scripts(node, 1) as scripts:
            rank, optimizer = scripts.ranks[0], scripts.optimizers[0]
            with self.assertRaisesRegex(ValueError, "^factor is a float, accepted: a function"):
                grapevine.schedule(optimizer, rank, 0.5)
            with self.assertRaisesRegex(ValueError, "at progress 0 is nan, accepted: a finite"):
                grapevine.schedule(optimizer, rank, lambda done: math.nan)


class Waiting(unittest.TestCase):
    def said(self, scripts):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            scripts.ranks[0].finish(timeout=1.0)
        return said.getvalue().splitlines()

    def test_who_waits_is_told_for_whom_and_what_makes_an_end_of_it(self):
        with Node(2) as node, Scripts(node, 2) as scripts:
            waits, advice = self.said(scripts)[:2]
            self.assertEqual(waits, "grapevine: rank 0 has finished and waits for rank 1")
            self.assertIn("launch --gradients N", advice)
            self.assertIn("rank.sampler(data)", advice)

    def test_who_has_both_already_is_told_for_whom_alone(self):
        with Node(2, "--gradients", "10") as node, Scripts(node, 2) as scripts:
            self.assertEqual(
                self.said(scripts), ["grapevine: rank 0 has finished and waits for rank 1"]
            )


if __name__ == "__main__":
    unittest.main()
