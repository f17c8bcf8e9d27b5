"""Gradient flow, the limit of small learning rates that the theory describes."""

from __future__ import annotations

from ..config import Config
from .laws import Law, Plain
from .leap import Leap
from .quadrature import INTEGRAL


class Flow(Leap):
    """dx/dtau = f(x) with tau = eta * epoch: the machinery of `leap` on the plain force, with an integral where SGD has a sum."""

    name = "flow"

    def _law(self, cfg: Config) -> Law:
        return Plain(self._force, cfg.lr, INTEGRAL)
