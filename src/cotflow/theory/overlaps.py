"""How much do permutations overlap with each other, and with learned matrices?

A vocabulary's own mean overlap, the tau of Appendix E, Eq. 57 (its sigma is the same number), is `observables.teacher_overlap`.
"""

from __future__ import annotations

from itertools import permutations as all_orders
from math import factorial

import numpy as np
from numpy.typing import NDArray

from ..observables import teacher_overlap


def teacher_overlaps(permutations: NDArray[np.int64], m: NDArray[np.floating]) -> NDArray[np.float64]:
    """All overlaps O[a, b] = tr(M*_a^T M_b) / N, shape (d_g, d_g), of whose entries R and S are means (Eq. 9).

    permutations (d_g, N), m (d_g, N, N) with rows the next state. R is the mean of the
    diagonal, S of the rest (`observables.order_parameters`).

    >>> from cotflow.task import teacher_matrices
    >>> permutations = np.array([[0, 1, 2], [1, 2, 0]])
    >>> teacher_overlaps(permutations, teacher_matrices(permutations))
    array([[1., 0.],
           [0., 1.]])
    """
    states = np.arange(permutations.shape[1])
    return np.stack([m[:, images, states].mean(axis=1, dtype=np.float64) for images in permutations])


def tau_bar(N: int) -> float:
    """Average of tau over vocabularies of distinct permutations: (1/N) (1 - 1/(N-1)!) / (1 - 1/N!) (Appendix F, Eq. 77).

    >>> round(tau_bar(2), 12), round(tau_bar(3), 12), round(32 * tau_bar(32), 12)
    (0.0, 0.2, 1.0)
    """
    return (1 - 1 / factorial(N - 1)) / (1 - 1 / factorial(N)) / N


def tau_bar_enumerated(N: int) -> float:
    """The same average by going through all pairs of distinct permutations of N <= 6 states.

    >>> tau_bar_enumerated(3)
    0.2
    """
    return teacher_overlap(np.array(list(all_orders(range(N)))))
