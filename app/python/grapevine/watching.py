"""The optimizers of a script: whose steps count, and whether the joined parameters are still theirs
and the model's."""

from __future__ import annotations

import operator
import warnings
import weakref
from typing import Any, Dict, List, Sequence, Set, Tuple

import torch

from .layout import Layout, held_by, stepped_by


class Watch:
    """Notices when model or optimizers no longer hold the parameters that were joined."""

    def __init__(
        self, model: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer], layout: Layout
    ) -> None:
        self._model = model
        self._optimizers = list(optimizers)
        self._stepped = list(stepped_by(optimizers))
        self._joined = {id(t) for j in layout.tensors for t in (j.tensor, *j.twins)}
        self._held: Set[int] = set()
        self._held = self._find()
        self._others = [
            (name, parameter)
            for name, parameter in model.named_parameters()
            if id(parameter) not in self._joined
        ]

    def _find(self) -> Set[int]:
        """Finds the joined parameters in the model. If they are those of before, or there were
        none, notes where they are, and which modules lead to them."""
        held = held_by(self._model, "_parameters")
        found = [entry for entry in held if self._is_joined(entry[3])]
        now = {id(entry[3]) for entry in found}
        if self._held and now != self._held:
            return now
        places: List[Tuple[Dict[str, Any], str, object]] = [entry[1:] for entry in found]
        for parent in self._model.modules():
            for key, child in parent._modules.items():
                if child is not None and any(map(self._is_joined, child.parameters())):
                    places.append((parent._modules, key, child))
        self._slots = [slots for slots, _, _ in places]
        self._keys = [key for _, key, _ in places]
        self._there = [there for _, _, there in places]
        return now

    def _is_joined(self, parameter: torch.Tensor) -> bool:
        return id(parameter) in self._joined

    def check(self) -> None:
        """Raises ValueError if they do not."""
        if not self._optimizers:
            self._check_frozen()
        now = list(stepped_by(self._optimizers))
        if len(now) != len(self._stepped) or any(map(operator.is_not, now, self._stepped)):
            raise ValueError(
                "the optimizer's parameters have changed: close the rank and join again"
            )
        self.check_model()

    def check_model(self) -> None:
        """Raises ValueError if the model does not."""
        try:
            there = map(operator.getitem, self._slots, self._keys)
            same = not any(map(operator.is_not, there, self._there))
        except KeyError:
            same = False
        # Other modules may hold the same parameters: torch.compile around a part of the model.
        if not same and self._find() != self._held:
            raise ValueError(
                "the model's parameters are other objects than those that the optimizer steps "
                "(a layer replaced, load_state_dict with assign=True?): make a new optimizer "
                "and join again"
            )

    def _check_frozen(self) -> None:
        """Without an optimizer, every parameter that requires a gradient has to be joined."""
        for name, parameter in self._others:
            if parameter.requires_grad:
                raise ValueError(
                    "%s requires a gradient and is not joined: close the rank and join again" % name
                )

    def knows(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether it was joined."""
        return any(optimizer is known for known in self._optimizers)

    def look_at(self, optimizer: torch.optim.Optimizer) -> Tuple[bool, List[str]]:
        """Of an optimizer that was not joined: whether it steps joined parameters, and the names of
        the model's other parameters that it steps."""
        stepped = {id(parameter) for parameter in stepped_by([optimizer])}
        others = [
            name
            for name, parameter in self._model.named_parameters()
            if id(parameter) in stepped - self._joined
        ]
        return bool(stepped & self._joined), others


class OptimizerSteps:
    """Counts the optimizer steps since the last STEP, and decides whose steps count.

    Steps of the joined optimizer count; those of other optimizers within them, and of `also`, do
    not. Steps of an optimizer that was not joined count if it steps joined parameters, unless the
    script makes its STEPs by hand.
    """

    def __init__(self, watch: Watch, every: int, by_hand: bool) -> None:
        self.since = 0  # the last STEP
        self.elsewhere = False  # some optimizer steps parameters of no joined model
        self._watch, self._every, self._by_hand = watch, every, by_hand
        self._inside = False  # a joined optimizer is in its step
        self._others: weakref.WeakKeyDictionary[torch.optim.Optimizer, bool]
        self._others = weakref.WeakKeyDictionary()  # whether they count

    def begin(self) -> None:
        """A joined optimizer begins its step."""
        self._inside = True

    def leave(self) -> None:
        """It has ended its step, which does not count."""
        self._inside = False

    def count(self) -> bool:
        """A step that counts has ended. Whether a STEP is due."""
        self._inside = False
        self.since += 1
        return self.since >= self._every

    def take(self) -> int:
        """How many the STEP of now hands over: at least one, for a STEP by hand."""
        taken, self.since = max(1, self.since), 0
        return taken

    def counts(self, optimizer: torch.optim.Optimizer, rank: int) -> bool:
        """Whether a step counts that some optimizer of this process has ended."""
        if self._inside:
            return False
        if optimizer not in self._others:
            joined = self._watch.knows(optimizer)
            self._others[optimizer] = not joined and self._meet(optimizer, rank)
        return self._others[optimizer]

    def _meet(self, optimizer: torch.optim.Optimizer, rank: int) -> bool:
        """Warns of an optimizer that was not joined. Whether its steps count."""
        ours, others = self._watch.look_at(optimizer)
        name = type(optimizer).__name__
        self.elsewhere = self.elsewhere or not (ours or others)
        if others:
            warnings.warn(
                "rank %d: %s steps %d parameters of the model that are not joined (%s is one): "
                "they are in no rank and no mean; close the rank and join again"
                % (rank, name, len(others), others[0]),
                stacklevel=4,
            )
        if not ours or self._by_hand:
            return False
        warnings.warn(
            "rank %d: %s was not joined and steps the rank's parameters: a STEP follows each of "
            "its steps from now on" % (rank, name),
            stacklevel=4,
        )
        return True


class Farewell:
    """Says once, and why, that steps of a script are in no rank any more.

    It is an optimizer's hook after a rank is closed, and does not keep the rank alive.
    """

    def __init__(self) -> None:
        self.why = ""
        self._said = False

    def __call__(self, *_: object) -> None:
        if not self._said:
            self._said = True
            warnings.warn(self.why + ": steps of its script are in no rank now", stacklevel=4)
