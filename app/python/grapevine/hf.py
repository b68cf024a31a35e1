"""The Trainer of Hugging Face: `Trainer(callbacks=[grapevine.hf.Gossip()])`."""

from __future__ import annotations

import importlib
from typing import Any

from .loops import Loop

_transformers: Any = importlib.import_module("transformers")


class Gossip(_transformers.TrainerCallback, Loop):  # type: ignore[misc]
    """Joins when the training begins, divides the data, stops with the run, adds figures of the run
    to the logs, and has the mean of all ranks at the end. Arguments: those of `Loop`.

    The trainer has computed its schedule from `max_steps` before: give the steps of one rank, or
    `shard=False`.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        Loop.__init__(self, *arguments, **options)

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.begin(given["model"], [given["optimizer"]])
        self.share(given.get("train_dataloader"))

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        control.should_training_stop = control.should_training_stop or self.stopped

    def on_log(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        logs = given.get("logs")
        if self.rank is None or logs is None:
            return
        if "loss" in logs:
            self.rank.loss = logs["loss"]
        logs.update(self.figures())
        if state.log_history:
            state.log_history[-1].update(self.figures())

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.finish()
