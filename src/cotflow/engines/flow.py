"""Gradient flow, the limit of small learning rates that the theory describes."""

from __future__ import annotations

from .leap import Leap
from .quadrature import INTEGRAL


class Flow(Leap):
    """dx/dtau = f(x) with tau = eta * epoch: the machinery of `Leap` with an integral where SGD has a sum."""

    name = "flow"
    rule = INTEGRAL
