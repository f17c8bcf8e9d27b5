"""Gradient flow, the limit of small learning rates that the theory describes."""

from __future__ import annotations

from ..config import Config
from .laws import Law, Plain
from .leap import Leap
from .quadrature import INTEGRAL


class Flow(Leap):
    """The solution of dx/dtau = f(x), tau = eta * epoch: `leap` on the plain force, with an integral in place of the sum.

    Its distance to SGD is of first order in the learning rate, 1e-3 in A in the paper's main table, so the default tolerance,
    3e-5, leaves much to spare.
    """

    name = "flow"
    tolerance = 3e-5

    def _law(self, cfg: Config) -> Law:
        return Plain(self._force, cfg.lr, INTEGRAL)
