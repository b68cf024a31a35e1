"""Trainer loops that people use: Lightning, the Trainer of Hugging Face, accelerate."""

import hashlib
import importlib.util
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import warnings
from functools import partial

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import grapevine
from grapevine.loops import Loop
from networks import IMAGES, LABELS, equal, values
from node import PROGRAM, Node, until


def needs(module):
    there = importlib.util.find_spec(module) is not None
    return unittest.skipUnless(there, f"{module} cannot be imported")


class Fate(nn.Module):
    """What becomes of a script of four: one computes three times as long, one is killed when it
    has taken two steps. No other takes more than one before that, so it is never too late."""

    def __init__(self, network):
        super().__init__()
        self.network, self.calls, self.seat = network, 0, os.environ["GRAPEVINE_SEAT"]

    def forward(self, pixels):
        self.calls += 1
        if self.seat == "1" and self.calls == 3:
            open("killed", "x").close()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.seat != "1" and self.calls == 2:
            until("one is killed", lambda: os.path.exists("killed"))
        for _ in range(2 if self.seat == "2" else 0):
            self.network(pixels)
        return self.network(pixels)


def network():
    torch.manual_seed(0)
    made = nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 10))
    return Fate(made) if "GRAPEVINE_FATE" in os.environ else made


def batches():
    return DataLoader(TensorDataset(IMAGES, LABELS), 16)


def lightning_fit(gossip, epochs=2, logger=False):
    import lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Images(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = network()

        def training_step(self, batch, _):
            return functional.cross_entropy(self.network(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 1e-3)

    module, loader = Images(), batches()
    sampler = loader.batch_sampler.sampler
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=epochs, logger=logger, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=1,
        callbacks=[gossip] if gossip else [],
    )
    trainer.fit(module, loader)
    assert loader.batch_sampler.sampler is sampler  # as the user has made it
    return module


def hugging_face_fit(gossip, epochs=2):
    import transformers

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network()

        def forward(self, pixels, labels):
            scores = self.network(pixels)
            return {"loss": functional.cross_entropy(scores, labels), "logits": scores}

    model = Classifier()
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder, num_train_epochs=epochs, report_to=[], use_cpu=True, seed=1,
            per_device_train_batch_size=16, save_strategy="no", disable_tqdm=True,
            logging_strategy="steps", logging_steps=1, log_level="error",
        )
        rows = [{"pixels": x, "labels": y} for x, y in zip(IMAGES, LABELS)]
        trainer = transformers.Trainer(
            model, arguments, train_dataset=rows, callbacks=[gossip] if gossip else []
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    model.logs = trainer.state.log_history
    return model


def accelerate_fit(make_gossip, epochs=2):
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True)
    model, loader = network(), batches()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    gossip = make_gossip(accelerator, model, optimizer, loader) if make_gossip else None
    for _ in range(epochs):
        for pixels, labels in loader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(pixels), labels)
            accelerator.backward(loss)
            optimizer.step()
            if gossip and gossip.tell(loss):
                break
    if gossip:
        gossip.finish()
    return model, gossip


def fit_on_half():
    """In a process of its own, one of two."""
    gossip = grapevine.lightning.Gossip()
    lightning_fit(gossip, epochs=1000)
    return gossip.rank.steps, gossip.rank.ranks, gossip.mean


def fit_as_one_of_four(library):
    """A script of its own, to the end of the run."""
    if library == "accelerate":
        _, gossip = accelerate_fit(grapevine.accelerate.Gossip, epochs=1000)
    elif library == "lightning":
        gossip = grapevine.lightning.Gossip()
        lightning_fit(gossip, epochs=1000)
    else:
        gossip = grapevine.hf.Gossip()
        hugging_face_fit(gossip, epochs=1000)
    mean = hashlib.sha256(b"".join(t.numpy().tobytes() for t in gossip.mean.values())).hexdigest()
    print("mean", mean, flush=True)


class Figures:
    """A logger of Lightning's that keeps what it is told."""

    def __new__(cls):
        from lightning.pytorch.loggers.logger import DummyLogger

        class Keeps(DummyLogger):
            told = []

            def log_metrics(self, metrics, step):
                self.told.append((step, metrics))

        return Keeps()


class Trainers(unittest.TestCase):
    """Alone the bits of the bare loop, a STEP a step; with others, to the end of the run."""

    def setUp(self):
        warnings.simplefilter("ignore")

    def check_alone(self, bare, own, rank):
        self.assertTrue(equal(values(bare), values(own)))
        self.assertEqual(rank.steps, 8)

    def check_end(self, gossip, saved):
        """The run of five steps has ended the loop, and its mean is there."""
        self.assertEqual(gossip.rank.steps, 5)
        self.assertTrue(gossip.stopped)
        mean = torch.load(saved, weights_only=True)
        self.assertEqual(set(mean), set(gossip.mean))
        for name, value in mean.items():
            self.assertTrue(torch.equal(value, gossip.mean[name]), name)

    def check_end_with_the_run(self, make_gossip, fit):
        with Node(1, "--gradients=5") as node:
            saved = node.folder + "/mean.pt"
            gossip = make_gossip(node=node.path, save=saved)
            fit(gossip, epochs=1000)
            self.check_end(gossip, saved)

    def check_four(self, library):
        """One is killed and one is slow: the others take what these leave, and have one mean."""
        script = f"import trainers_test; trainers_test.fit_as_one_of_four({library!r})"
        with Node() as aside:  # for a folder that is its user's own
            ran = subprocess.run(
                [PROGRAM, "launch", "--guests=4", "--gradients=120", "--no-save", "--json", "--",
                 sys.executable, "-W", "ignore", "-c", script],
                cwd=aside.folder, capture_output=True, text=True, timeout=300, check=False,
                env={**os.environ, "GRAPEVINE_FATE": "1", "OMP_NUM_THREADS": "1",
                     "TMPDIR": aside.folder},
            )
        self.assertEqual(ran.returncode, 1, ran.stderr)  # as one script has failed
        self.assertIn("rank 1 has ended with status 137", ran.stderr)
        means = re.findall(r"^\[(\d)\] mean (\w+)$", ran.stderr, re.MULTILINE)
        self.assertEqual(sorted(rank for rank, _ in means), ["0", "2", "3"], ran.stderr)
        self.assertEqual(len({mean for _, mean in means}), 1)
        result = json.loads(ran.stdout)
        self.assertIn(result["gradients"], range(120, 124))  # one under way at each
        self.assertEqual(result["gradients_by_rank"][1], 2)

    @needs("lightning")
    def test_four_of_lightning_do_the_work_of_one_that_is_killed_and_one_that_is_slow(self):
        self.check_four("lightning")

    @needs("transformers")
    def test_four_of_hugging_face_do_the_work_of_one_that_is_killed_and_one_that_is_slow(self):
        self.check_four("transformers")

    @needs("accelerate")
    def test_four_of_accelerate_do_the_work_of_one_that_is_killed_and_one_that_is_slow(self):
        self.check_four("accelerate")

    @needs("lightning")
    def test_lightning_has_the_bits_of_its_own_loop_alone_and_tells_its_loggers(self):
        logger = Figures()
        with Node() as node:
            gossip = grapevine.lightning.Gossip(node=node.path)
            own = lightning_fit(gossip, logger=logger)
        self.check_alone(lightning_fit(None), own, gossip.rank)
        step, told = logger.told[-1]
        self.assertEqual(step, 8)
        self.assertEqual(told["grapevine/ranks"], 1)
        self.assertEqual(told["grapevine/steps"], 8)
        self.assertGreater(told["grapevine/loss"], 0)

    @needs("lightning")
    def test_lightning_ends_with_the_run_and_saves_the_mean(self):
        self.check_end_with_the_run(grapevine.lightning.Gossip, lightning_fit)

    @needs("lightning")
    def test_two_of_lightning_share_the_steps_of_a_run_and_have_one_mean(self):
        one, other = grapevine.launch(fit_on_half, ranks=2, gradients=60)
        self.assertIn(one[0] + other[0], range(60, 63))  # one under way at each
        self.assertEqual((one[1], other[1]), (2, 2))
        for name, value in one[2].items():
            self.assertTrue(torch.equal(value, other[2][name]), name)

    @needs("transformers")
    def test_the_trainer_of_hugging_face_has_its_bits_alone_and_logs_the_run(self):
        with Node() as node:
            gossip = grapevine.hf.Gossip(node=node.path)
            own = hugging_face_fit(gossip)
        self.check_alone(hugging_face_fit(None), own, gossip.rank)
        told = [log for log in own.logs if "loss" in log][-1]
        self.assertEqual(told["grapevine/ranks"], 1)
        self.assertEqual(told["grapevine/steps"], 8)

    @needs("transformers")
    def test_the_trainer_of_hugging_face_ends_with_the_run_and_saves_the_mean(self):
        self.check_end_with_the_run(grapevine.hf.Gossip, hugging_face_fit)

    @needs("accelerate")
    def test_what_accelerate_prepares_has_its_bits_alone(self):
        with Node() as node:
            own, gossip = accelerate_fit(partial(grapevine.accelerate.Gossip, node=node.path))
        bare, _ = accelerate_fit(None)
        self.check_alone(bare, own, gossip.rank)

    @needs("accelerate")
    def test_a_loop_of_accelerate_ends_with_the_run_and_saves_the_mean(self):
        with Node(1, "--gradients=5") as node:
            saved = node.folder + "/mean.pt"
            make = partial(grapevine.accelerate.Gossip, node=node.path, save=saved)
            _, gossip = accelerate_fit(make)
            self.check_end(gossip, saved)

    def test_a_loader_with_a_sampler_of_its_own_keeps_it_and_a_warning_says_so(self):
        drawn = torch.utils.data.WeightedRandomSampler([1.0] * 64, 64)
        loader = DataLoader(TensorDataset(IMAGES, LABELS), 16, sampler=drawn)
        with Node() as node:
            loop = Loop(node=node.path)
            model = network()
            loop.begin(model, [torch.optim.SGD(model.parameters(), 0.1)])
            with self.assertWarnsRegex(UserWarning, "its own WeightedRandomSampler"):
                loop.share(loader)
            self.assertIs(loader.batch_sampler.sampler, drawn)
            loop.leave()


if __name__ == "__main__":
    unittest.main()
