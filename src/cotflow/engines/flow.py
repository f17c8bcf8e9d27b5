"""Gradient flow, the limit of small learning rates that the theory describes."""

from __future__ import annotations

from .leap import Leap
from .quadrature import INTEGRAL


class Flow(Leap):
    """The solution of dx/dtau = f(x), tau = eta * epoch: `leap` with an integral in place of the sum.

    Its distance to SGD is of first order in the learning rate, 1e-3 in A in the paper's tables, whatever the tolerance.
    """

    name = "flow"
    rule = INTEGRAL
