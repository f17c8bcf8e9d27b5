"""What an engine is: something that moves weights along epochs, knows them at any epoch passed, and can be put to sleep."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ..params import Params

State = tuple[dict[str, np.ndarray], dict[str, Any]]


class Engine(Protocol):
    """From initial weights onward; `drive` records, checkpoints and interrupts every engine alike."""

    @property
    def epoch(self) -> int:
        """How far the weights are known."""
        ...

    @property
    def params(self) -> Params:
        """Weights at `epoch`."""
        ...

    @property
    def gradients(self) -> int:
        """Gradient evaluations that the epochs up to `epoch` have cost."""
        ...

    def advance(self) -> None:
        """Go on by one accepted step of one or more epochs."""
        ...

    def at(self, epoch: int) -> tuple[Params, float | None]:
        """Weights at an epoch of the last step (its end included), and the loss over all training sequences if it is known."""
        ...

    def state(self) -> State:
        """All that `advance` and `at` (within the last step) depend on, as arrays and JSON-able values."""
        ...

    def restore(self, state: State) -> None:
        """Take up a state: what follows has the same bits as if there had been no interruption."""
        ...

    def report(self) -> dict[str, Any]:
        """Attributes for the record: whatever statistics the engine keeps, under names that `simulate` does not use."""
        ...
