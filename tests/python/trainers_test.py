"""Trainer loops that people use: Lightning, the Trainer of Hugging Face, accelerate."""

import importlib.util
import logging
import unittest
import warnings

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import grapevine
from networks import IMAGES, LABELS, equal, values
from node import Node


def needs(module):
    there = importlib.util.find_spec(module) is not None
    return unittest.skipUnless(there, f"{module} cannot be imported")


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 10))


class Trainers(unittest.TestCase):
    """Each trains twice, bare and as the one rank of a node: the same bits, a STEP a step."""

    def both(self, train):
        warnings.simplefilter("ignore")
        with Node() as node:
            bare, _ = train(None)
            own, rank = train(node.path)
            self.assertTrue(equal(bare, own))
            self.assertEqual(rank.steps, 8)

    @needs("lightning")
    def test_lightning_joins_when_its_fit_starts(self):
        import lightning

        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

        class Images(lightning.LightningModule):
            def __init__(self, path):
                super().__init__()
                self.network = network()
                self.path = path
                self.rank = None

            def training_step(self, batch, _):
                return functional.cross_entropy(self.network(batch[0]), batch[1])

            def configure_optimizers(self):
                return torch.optim.AdamW(self.parameters(), 1e-3)

            def on_fit_start(self):
                if self.path:
                    self.rank = grapevine.join(self, self.optimizers(), self.path)

        def train(path):
            module = Images(path)
            trainer = lightning.Trainer(
                accelerator="cpu", max_epochs=2, logger=False, enable_checkpointing=False,
                enable_progress_bar=False, enable_model_summary=False,
            )
            trainer.fit(module, DataLoader(TensorDataset(IMAGES, LABELS), 16))
            if module.rank:
                module.rank.close()
            return values(module), module.rank

        self.both(train)

    @needs("transformers")
    def test_the_trainer_of_hugging_face_joins_in_a_callback(self):
        import transformers

        class Classifier(nn.Module):
            def __init__(self):
                super().__init__()
                self.network = network()

            def forward(self, pixels, labels):
                scores = self.network(pixels)
                return {"loss": functional.cross_entropy(scores, labels), "logits": scores}

        class Join(transformers.TrainerCallback):
            rank = None

            def on_train_begin(self, args, state, control, model, optimizer, **_):
                self.rank = grapevine.join(model, optimizer, self.path)

        def train(path):
            join = Join()
            join.path = path
            model = Classifier()
            with Node() as aside:
                arguments = transformers.TrainingArguments(
                    output_dir=aside.folder + "/out", num_train_epochs=2, report_to=[],
                    per_device_train_batch_size=16, use_cpu=True, save_strategy="no",
                    disable_tqdm=True, logging_strategy="no", seed=1,
                )
                rows = [{"pixels": x, "labels": y} for x, y in zip(IMAGES, LABELS)]
                trainer = transformers.Trainer(
                    model, arguments, train_dataset=rows, callbacks=[join] if path else []
                )
                trainer.train()
            if join.rank:
                join.rank.close()
            return values(model), join.rank

        self.both(train)

    @needs("accelerate")
    def test_what_accelerate_prepares_joins(self):
        import accelerate

        def train(path):
            accelerator = accelerate.Accelerator(cpu=True)
            model = network()
            loader = DataLoader(TensorDataset(IMAGES, LABELS), 16)
            optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            rank = grapevine.join(model, optimizer, path) if path else None
            for _ in range(2):
                for pixels, labels in loader:
                    optimizer.zero_grad()
                    accelerator.backward(functional.cross_entropy(model(pixels), labels))
                    optimizer.step()
            if rank:
                rank.close()
            return values(model), rank

        self.both(train)


if __name__ == "__main__":
    unittest.main()
