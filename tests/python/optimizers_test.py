"""Alone, a joined script computes what the bare one does: to the bit, with every optimizer."""

import copy
import importlib
import unittest

import torch
from torch import nn
from torch.nn import functional
from torch.optim import lr_scheduler

import grapevine
from networks import IMAGES, LABELS, alone_is_bare, network, sgd, train, values
from node import Node


def of(kind, *arguments, **options):
    return lambda model: kind(model.parameters(), *arguments, **options)


def matrices(kind, *arguments, **options):
    return lambda m: kind([p for p in m.parameters() if p.ndim == 2], *arguments, **options)


OPTIMIZERS = {
    "SGD": of(torch.optim.SGD, 0.05),
    "SGD with momentum": of(torch.optim.SGD, 0.05, momentum=0.9, weight_decay=1e-3),
    "SGD with Nesterov's": of(torch.optim.SGD, 0.05, momentum=0.9, nesterov=True),
    "SGD foreach": of(torch.optim.SGD, 0.05, momentum=0.9, foreach=True),
    "SGD fused": of(torch.optim.SGD, 0.05, momentum=0.9, fused=True),
    "Adam": of(torch.optim.Adam, 1e-3),
    "Adam amsgrad": of(torch.optim.Adam, 1e-3, amsgrad=True),
    "Adam fused": of(torch.optim.Adam, 1e-3, fused=True),
    "AdamW": of(torch.optim.AdamW, 1e-3),
    "AdamW foreach": of(torch.optim.AdamW, 1e-3, foreach=True),
    "AdamW fused": of(torch.optim.AdamW, 1e-3, fused=True),
    "RMSprop": of(torch.optim.RMSprop, 1e-3, momentum=0.5, centered=True),
    "Adagrad": of(torch.optim.Adagrad, 1e-2),
    "Adadelta": of(torch.optim.Adadelta),
    "NAdam": of(torch.optim.NAdam),
    "RAdam": of(torch.optim.RAdam),
    "Adamax": of(torch.optim.Adamax),
    "ASGD": of(torch.optim.ASGD),
    "Rprop": of(torch.optim.Rprop),
}
if hasattr(torch.optim, "Adafactor"):
    OPTIMIZERS["Adafactor"] = of(torch.optim.Adafactor)
if hasattr(torch.optim, "Muon"):
    OPTIMIZERS["Muon"] = matrices(torch.optim.Muon)
# With closures or sparse gradients; they have cases of their own below.
ELSEWHERE = {"LBFGS", "SparseAdam"}


class Optimizers(unittest.TestCase):
    def same(self, make_optimizer, make_model=network, run=train, steps=8):
        same, made = alone_is_bare(make_model, make_optimizer, run)
        self.assertTrue(same)
        self.assertEqual(made, steps)

    def test_every_dense_optimizer_of_torch_is_in_the_table(self):
        known = {name.split()[0] for name in OPTIMIZERS} | ELSEWHERE
        kinds = vars(torch.optim).items()
        theirs = {
            name
            for name, kind in kinds
            if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)
        } - {"Optimizer"}
        self.assertEqual(theirs - known, set())

    def test_alone_every_optimizer_gives_the_bits_of_the_bare_loop(self):
        for name, make in OPTIMIZERS.items():
            with self.subTest(optimizer=name):
                self.same(make)

    def test_LBFGS_with_its_closure_makes_one_STEP_a_step(self):
        inputs, wanted = torch.randn(50, 20), torch.randn(50, 3)

        def run(model, optimizer):
            def closure():
                optimizer.zero_grad()
                loss = functional.mse_loss(model(inputs), wanted)
                loss.backward()
                return loss

            return [optimizer.step(closure).item() for _ in range(5)]

        make = of(torch.optim.LBFGS, max_iter=5, line_search_fn="strong_wolfe")
        self.same(make, lambda: nn.Linear(20, 3), run, 5)

    def test_sparse_gradients_with_SparseAdam(self):
        def run(model, optimizer):
            for _ in range(6):
                optimizer.zero_grad()
                model(torch.arange(6)).square().mean().backward()
                optimizer.step()

        make = of(torch.optim.SparseAdam, 1e-2)
        self.same(make, lambda: nn.Embedding(20, 4, sparse=True), run, 6)

    def test_gradients_that_are_zeroed_and_not_dropped(self):
        self.same(sgd, run=lambda m, o: train(m, o, set_to_none=False))

    def test_accumulated_gradients_make_one_STEP_an_optimizer_step(self):
        self.same(sgd, run=lambda m, o: train(m, o, accumulate=4))

    def test_clipped_gradients(self):
        self.same(sgd, run=lambda m, o: train(m, o, clip=0.1))

    def test_a_schedule_made_before_and_one_made_after_join(self):
        def after(model, optimizer):
            schedule = lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20)
            return train(model, optimizer, schedule=schedule)

        self.same(sgd, run=after)
        schedules = []

        def before(model):
            optimizer = sgd(model)
            schedules.append(lr_scheduler.CosineAnnealingLR(optimizer, 8))
            return optimizer

        self.same(before, run=lambda m, o: train(m, o, schedule=schedules[-1]))

    def test_autocast_in_bf16(self):
        self.same(sgd, run=lambda m, o: train(m, o, autocast=torch.bfloat16))

    def test_a_gradient_scaler(self):
        def run(model, optimizer):
            scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
            return train(model, optimizer, scaler=scaler, clip=1.0)

        self.same(sgd, run=run)

    def test_a_gradient_scaler_that_skips_makes_no_STEP(self):
        self.assertEqual(self.after_an_infinite_gradient(sgd), 0)

    def test_a_gradient_scaler_that_skips_a_fused_step_changes_nothing(self):
        self.after_an_infinite_gradient(lambda m: sgd(m, fused=True))

    def after_an_infinite_gradient(self, make_optimizer):
        with Node() as node:
            model = network()
            optimizer = make_optimizer(model)
            with grapevine.join(model, optimizer, node.path) as rank:
                before = [p.detach().clone() for p in model.parameters()]
                scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
                loss = functional.cross_entropy(model(IMAGES), LABELS)
                scaler.scale(loss).backward()
                model[0].weight.grad[0, 0, 0, 0] = float("inf")
                scaler.step(optimizer)
                scaler.update()
                for now, then in zip(model.parameters(), before):
                    self.assertTrue(torch.equal(now, then))
                return rank.steps

    def test_of_an_optimizer_in_wrappers_the_innermost_is_joined(self):
        class Wrapper(torch.optim.Optimizer):
            """As trainers put around an optimizer: it has nothing of its own."""

            def __init__(self, optimizer):
                self.optimizer = optimizer

            def step(self):
                self.optimizer.step()

        with Node() as node:
            model = network()
            optimizer = Wrapper(Wrapper(sgd(model)))
            with grapevine.join(model, optimizer, node.path) as rank:
                functional.cross_entropy(model(IMAGES), LABELS).backward()
                optimizer.step()
                self.assertEqual(rank.steps, 1)

    def test_local_steps_make_a_STEP_every_so_many(self):
        with Node() as node:
            model = network()
            optimizer = sgd(model)
            with grapevine.join(model, optimizer, node.path, every=4) as rank:
                train(model, optimizer, 10)
                self.assertEqual(rank.steps, 2)

    def test_what_is_left_of_local_steps_is_handed_in_at_the_end(self):
        with Node() as node:
            model = network()
            optimizer = sgd(model)
            with grapevine.join(model, optimizer, node.path, every=4) as rank:
                train(model, optimizer, 6)
                mean = rank.finish()
                self.assertEqual(rank.steps, 2)
                for name, value in model.state_dict().items():
                    self.assertTrue(torch.equal(mean[name], value), name)

    def test_an_unfinished_STEP_counts_and_is_handed_in_when_the_work_is_done(self):
        def take(k, steps):
            for _ in range(steps):
                train(models[k], optimizers[k], 1)

        module = importlib.import_module("grapevine.rank")
        self.addCleanup(setattr, module, "_COUNT_S", module._COUNT_S)
        module._COUNT_S = 0  # each optimizer step is told
        with Node(2, "--gradients", "60", "--no-save") as node:
            models = [network(), network()]
            optimizers = [sgd(model) for model in models]
            first, second = (grapevine.join(model, optimizer, node.path, every=50)
                             for model, optimizer in zip(models, optimizers))
            take(0, 30)
            take(1, 29)
            self.assertEqual((first.steps, second.steps), (0, 0))
            take(1, 1)  # all 60 are taken
            self.assertEqual((first.steps, second.steps, second.stopped), (0, 1, True))
            take(0, 1)
            self.assertEqual((first.steps, first.stopped, first.run_steps), (1, True, 61))
            first.close()
            second.close()

    def test_an_outer_optimizer_is_torchs_own_fed_by_hand_to_rounding(self):
        rounds = [4] * 6 + [1]  # the last one is handed in at the end
        model = network()
        by_hand = copy.deepcopy(model)
        inner = torch.optim.SGD(by_hand.parameters(), 0.05)
        base = [p.detach().clone().requires_grad_() for p in by_hand.parameters()]
        outer = torch.optim.SGD(base, 0.7, momentum=0.9, nesterov=True)
        for seed, steps in enumerate(rounds):
            train(by_hand, inner, steps, seed=seed)
            with torch.no_grad():
                for anchor, p in zip(base, by_hand.parameters()):
                    anchor.grad = anchor - p
                outer.step()
                for anchor, p in zip(base, by_hand.parameters()):
                    p.copy_(anchor)
        with Node() as node:
            optimizer = torch.optim.SGD(model.parameters(), 0.05)
            with grapevine.join(model, optimizer, node.path, every=4, outer=(0.7, 0.9)) as rank:
                for seed, steps in enumerate(rounds):
                    train(model, optimizer, steps, seed=seed)
                mean = rank.finish()
                self.assertEqual(rank.steps, len(rounds))
        for name, value in by_hand.state_dict().items():
            torch.testing.assert_close(mean[name], value, rtol=1e-4, atol=1e-5)

    def test_scripts_of_a_run_have_one_outer_optimizer(self):
        model = network()
        for wrong in (0.7, (0.7,), (0, 0.9), (0.7, 1), (float("nan"), 0), ("a", "b")):
            with self.assertRaisesRegex(ValueError, "outer is .*accepted: None, or"):
                grapevine.join(model, sgd(model), "nowhere", outer=wrong)
        with Node(2) as node:
            with grapevine.join(model, sgd(model), node.path, outer=(0.7, 0.9)):
                other = network()
                with self.assertRaisesRegex(grapevine.Refused, r"no outer=; this run has outer="):
                    grapevine.join(other, sgd(other), node.path)

    def test_optimizers_in_the_backward_pass_with_STEP_by_hand(self):
        inputs = torch.randn(3, 8)

        def run(model, _):
            own = {p: torch.optim.SGD([p], 0.01) for p in model.parameters()}

            def at_once(parameter):
                own[parameter].step()
                own[parameter].zero_grad()

            for parameter in model.parameters():
                parameter.register_post_accumulate_grad_hook(at_once)
            return model, inputs

        results = []
        with Node() as node:
            for joined in (False, True):
                torch.manual_seed(0)
                model = nn.Linear(8, 8)
                run(model, None)
                rank = grapevine.join(model, None, node.path) if joined else None
                for _ in range(3):
                    model(inputs).square().mean().backward()
                    if rank:
                        rank.step()
                results.append(values(model))
                if rank:
                    self.assertEqual(rank.steps, 3)
                    rank.close()
        for bare, own in zip(*results):
            self.assertTrue(torch.equal(bare, own))

    def test_two_half_steps_of_which_the_inner_optimizer_makes_the_second(self):
        def run(model, optimizer):
            losses = []
            for _ in range(4):
                train_gradient(model)
                with torch.no_grad():
                    away = [0.05 * p.grad / (p.grad.norm() + 1e-12) for p in model.parameters()]
                    for parameter, by in zip(model.parameters(), away):
                        parameter.add_(by)
                optimizer.zero_grad()
                losses.append(train_gradient(model))
                with torch.no_grad():
                    for parameter, by in zip(model.parameters(), away):
                        parameter.sub_(by)
                optimizer.step()
                optimizer.zero_grad()
            return losses

        def train_gradient(model):
            loss = functional.cross_entropy(model(IMAGES), LABELS)
            loss.backward()
            return loss.item()

        self.same(sgd, run=run, steps=4)


if __name__ == "__main__":
    unittest.main()
