"""What a leap interpolates: the force on the weights itself, or quantities that the force follows from in closed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from .quadrature import Rule, combine

Force = Callable[[np.ndarray, float], tuple[float, np.ndarray]]


class Law(Protocol):
    """Descent x_{k+1} = x_k + eta f(x_k), with f given by a *signal* g(x) that is interpolated along the path.

    f is minus the gradient of the loss, less `decays` (a rate for each weight, or one for all) times x.
    """

    eta: float
    rule: Rule
    decays: np.ndarray | float

    def signal(self, x: np.ndarray, epoch: float) -> tuple[float, np.ndarray]:
        """Loss and g at x; the one expensive call."""
        ...

    def force(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """The force f that g means at x."""
        ...

    def effect(self, x: np.ndarray, table: np.ndarray) -> np.ndarray:
        """Rows of errors in f that rows of errors in g cause, to first order, in a step that starts at x."""
        ...

    def carry(self, x: np.ndarray, nodes: np.ndarray, table: np.ndarray, start: float, h: float) -> np.ndarray:
        """The weights h epochs after x at `start`, g being Newton's polynomial with these nodes and divided differences."""
        ...


class Plain:
    """The law whose signal is f: steps add up to a sum, a flow to an integral."""

    def __init__(self, force: Force, eta: float, rule: Rule, decays: np.ndarray | float = 0.0) -> None:
        self._force, self.eta, self.rule, self.decays = force, eta, rule, decays

    def signal(self, x: np.ndarray, epoch: float) -> tuple[float, np.ndarray]:
        return self._force(x, epoch)

    def force(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        return g

    def effect(self, x: np.ndarray, table: np.ndarray) -> np.ndarray:
        return table

    def carry(self, x: np.ndarray, nodes: np.ndarray, table: np.ndarray, start: float, h: float) -> np.ndarray:
        return x + self.eta * combine(self.rule.moments(nodes, start, h), table)
