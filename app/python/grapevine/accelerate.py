"""accelerate: `gossip = grapevine.accelerate.Gossip(accelerator, model, optimizer, loader)`."""

from __future__ import annotations

from typing import Any

from .loops import Loop


class Gossip(Loop):
    """Joins what `accelerator.prepare` has given, and shards the loader, if one is given. Further
    options: those of `Loop`.

    The loop says `gossip.tell(loss)` after a step, which is true once the run takes no more, and
    `gossip.finish()` at its end. `with` leaves the rank however the loop ends.
    """

    def __init__(
        self, accelerator: Any, model: Any, optimizer: Any, loader: Any = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self._accelerator, self._told = accelerator, 0
        self.begin(accelerator.unwrap_model(model), [optimizer])
        self.share(loader)

    def tell(self, loss: Any) -> bool:
        """To the accelerator's trackers, with how the run is. True once it takes no more steps."""
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
