"""Exact sums and integrals of polynomials over a step, by one Gauss rule whose limit of many epochs is Gauss-Legendre.

The polynomials orthogonal with respect to the sum over t = 0, 1, ..., h-1 are Gram's (discrete Chebyshev) polynomials. They obey
p_{n+1} = (t - (h-1)/2) p_n - b_n p_{n-1} with b_n = n² (h² - n²) / (4 (4n² - 1)), so r nodes and weights, the eigenvalues of a
tridiagonal matrix, sum every polynomial of degree below 2r exactly, whatever h, without powers of t. For the integral over
[0, h] the n² beside h² is absent and the centre is h/2: Legendre's polynomials.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True)
class Rule:
    """How a step of h epochs adds up f: over its integers (`discrete`), as steps of SGD do, or as an integral, as a flow does."""

    discrete: bool

    def moments(self, nodes: np.ndarray, start: float, h: float) -> np.ndarray:
        """The totals of 1, (t - n_0), (t - n_0)(t - n_1), ... over the step from `start`; one more than there are nodes."""
        t, weights = _gauss(h, len(nodes) // 2 + 1, self.discrete)
        factors = np.vstack([np.ones_like(t), (start - nodes)[:, None] + t])
        return np.cumprod(factors, axis=0) @ weights


def combine(moments: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The sum of the rows of `table` (q, D), each times its moment; with the same bits whatever threads BLAS may have."""
    return np.einsum("j,jd->d", moments[: len(table)], table)


SUM = Rule(discrete=True)
INTEGRAL = Rule(discrete=False)


@lru_cache(maxsize=4096)
def _gauss(h: float, r: int, discrete: bool) -> tuple[np.ndarray, np.ndarray]:
    """Nodes in [0, h] and weights of the r-point rule; h nodes are enough for a sum over h integers."""
    r = int(min(r, h)) if discrete else r
    n = np.arange(1, r) ** 2.0
    off_diagonal = np.sqrt(n * (h * h - n * discrete) / (4 * (4 * n - 1)))
    nodes, vectors = np.linalg.eigh(np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1))
    return nodes + (h - discrete) / 2, h * vectors[0] ** 2
