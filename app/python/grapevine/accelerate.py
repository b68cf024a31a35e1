"""accelerate: `gossip = grapevine.accelerate.Gossip(accelerator, model, optimizer, loader)`."""

from __future__ import annotations

from typing import Any

from .loops import Loop


class Gossip(Loop):
    """Joins the objects that `accelerator.prepare` returned, and divides the loader's data, if a
    loader is given. Further options: those of `Loop`.

    The loop calls `gossip.tell(loss)` after each step, which returns true once the run takes no
    more steps, and `gossip.finish()` at its end. `with` leaves the rank however the loop ends.
    """

    def __init__(
        self, accelerator: Any, model: Any, optimizer: Any, loader: Any = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self._accelerator, self._told = accelerator, 0
        self.begin(accelerator.unwrap_model(model), [optimizer])
        self.share(loader)

    def tell(self, loss: Any) -> bool:
        """Logs to the accelerator's trackers. True once the run takes no more steps."""
        assert self.rank is not None
        self.rank.loss = loss
        self._told += 1
        figures = {**self.figures(), "grapevine/loss": self.rank.loss}
        self._accelerator.log(figures, step=self._told)
        return self.stopped

    def __enter__(self) -> Gossip:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
