"""Lightning: `Trainer(callbacks=[grapevine.lightning.Gossip()])`."""

from __future__ import annotations

import importlib
from typing import Any, Callable, Optional

from .loops import Loop

try:
    _lightning: Any = importlib.import_module("lightning.pytorch")
except ImportError:
    _lightning = importlib.import_module("pytorch_lightning")


class Gossip(_lightning.Callback, Loop):  # type: ignore[misc]
    """Joins when the fit begins, divides the training data, stops with the run, logs figures of the
    run, and has the mean of all ranks at the end. Arguments: those of `Loop`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        Loop.__init__(self, *arguments, **options)
        self._process: Optional[Callable[[Any], Any]] = None  # the strategy's own

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self.begin(pl_module, list(trainer.optimizers))
        process = self._process = trainer.strategy.process_dataloader

        def shared(loader: Any) -> Any:  # before the trainer counts its batches
            if trainer.training:
                self.share(loader)
            return process(loader)

        trainer.strategy.process_dataloader = shared

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert self.rank is not None
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:
            self.rank.loss = loss
        if trainer.global_step % max(1, trainer.log_every_n_steps) == 0:
            for logger in trainer.loggers:
                figures = {**self.figures(), "grapevine/loss": self.rank.loss}
                logger.log_metrics(figures, step=trainer.global_step)
        trainer.should_stop = trainer.should_stop or self.stopped

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        trainer.should_stop = trainer.should_stop or self.stopped  # an epoch without a batch

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.finish()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._restore(trainer)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._restore(trainer)

    def _restore(self, trainer: Any) -> None:
        self.leave()
        if self._process is not None:
            trainer.strategy.process_dataloader = self._process
            self._process = None
