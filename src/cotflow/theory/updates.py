"""What does one step of gradient descent on the mean-field loss do to M, R and S (Appendix E)?

The mean-field loss depends on the matrices through R and S alone. One step of size eta in an epoch is
Delta alpha = 1 / (d_g N) of training time, and there is no other small parameter: these are exact for any N.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..task import teacher_matrices
from .meanfield import Real, coefficients, logit_margin, miss

Array = NDArray[np.float64]


def dR_dm(permutations: NDArray[np.int64]) -> Array:
    """dR/d[M_b]_rs = [M*_b]_rs / (d_g N), shape (d_g, N, N) (Eq. 47).

    >>> dR_dm(np.array([[0, 1], [1, 0]]))[0]
    array([[0.25, 0.  ],
           [0.  , 0.25]])
    """
    d_g, N = permutations.shape
    return teacher_matrices(permutations) / (d_g * N)


def dS_dm(permutations: NDArray[np.int64]) -> Array:
    """dS/d[M_b]_rs = sum_{c != b} [M*_c]_rs / (d_g (d_g - 1) N), shape (d_g, N, N) (Eq. 47); 0 where d_g = 1.

    >>> dS_dm(np.array([[0, 1], [1, 0]]))[0]
    array([[0.  , 0.25],
           [0.25, 0.  ]])
    """
    d_g, N = permutations.shape
    matrices = teacher_matrices(permutations)
    return (matrices.sum(axis=0) - matrices) / (d_g * max(d_g - 1, 1) * N)


def dmu_k_dm(A: float, permutations: NDArray[np.int64]) -> Array:
    """How mu_k depends on M: d mu_k / d[M_b]_rs = c_R dR/dM + c_S dS/dM, shape (d_g, N, N) (Eq. 48).

    >>> dmu_k_dm(1.0, np.array([[0, 1], [1, 0]]))[1]
    array([[0.  , 0.25],
           [0.25, 0.  ]])
    """
    c_R, c_S = coefficients(A, len(permutations))
    return c_R * dR_dm(permutations) + c_S * dS_dm(permutations)


def dmu_o_dm(A: float, permutations: NDArray[np.int64]) -> Array:
    """How mu_o depends on M, zeta included: (1 / (d_g N) - d mu_k / d[M_b]_rs) / (N - 1), shape (d_g, N, N) (Eq. 49).

    >>> dmu_o_dm(1.0, np.array([[0, 1], [1, 0]]))[0]
    array([[0.  , 0.25],
           [0.25, 0.  ]])
    """
    d_g, N = permutations.shape
    return (1 / (d_g * N) - dmu_k_dm(A, permutations)) / (N - 1)


def delta_m(A: float, R: float, S: float, eta: float, permutations: NDArray[np.int64], zeta: float = 0.0) -> Array:
    """The step of M: (eta / (d_g N)) miss N/(N-1) [c_R M*_b + c_S/(d_g-1) sum_{c != b} M*_c - 1/N], (d_g, N, N).

    Eq. 52. Every column of a step sums to zero, which is why zeta is conserved.

    >>> step = delta_m(0.3, 0.1, 0.0, eta=0.5, permutations=np.array([[0, 1, 2], [1, 2, 0]]))
    >>> bool(np.allclose(step.sum(axis=1), 0))
    True
    """
    d_g, N = permutations.shape
    rate = eta * miss(logit_margin(A, R, S, N, d_g, zeta), N) * N / (N - 1)
    return rate * (dmu_k_dm(A, permutations) - 1 / (d_g * N**2))


def overlap_rates(A: Real, N: int, d_g: int, tau: float) -> tuple[Real, Real]:
    """How fast R and S grow for a unit of eta and of `miss`, with the teacher's own overlap tau (Eqs. 54 and 56).

    N/(N-1) (c_R + c_S tau - 1/N) and N/(N-1) (c_R tau + c_S (d_g-2)/(d_g-1) tau + c_S/(d_g-1) - 1/N), which are c_R and
    (1 - A)/d_g at tau = 1/N; S stays 0 where there is a single action.

    >>> R, S = overlap_rates(0.5, N=4, d_g=2, tau=0.25)
    >>> round(R, 12), round(S, 12)
    (0.75, 0.25)
    """
    c_R, c_S = coefficients(A, d_g)
    factor = N / (N - 1)
    if d_g == 1:
        return factor * (c_R - 1 / N), 0.0 * c_R
    return factor * (c_R + c_S * tau - 1 / N), factor * (c_R * tau + c_S * ((d_g - 2) * tau + 1) / (d_g - 1) - 1 / N)


def delta_R(A: Real, R: Real, S: Real, eta: float, N: int, d_g: int, tau: float, zeta: Real = 0.0) -> Real:
    """The step of R in one epoch, (eta / (d_g N)) miss times its rate (Eqs. 54 and 59a).

    >>> round(float(delta_R(1.0, 0.0, 0.0, eta=1.0, N=4, d_g=4, tau=0.25)), 12) == 0.75 / 16
    True
    """
    return eta / (d_g * N) * miss(logit_margin(A, R, S, N, d_g, zeta), N) * overlap_rates(A, N, d_g, tau)[0]


def delta_S(A: Real, R: Real, S: Real, eta: float, N: int, d_g: int, tau: float, zeta: Real = 0.0) -> Real:
    """The step of S in one epoch, (eta / (d_g N)) miss times its rate (Eqs. 56 and 59b).

    >>> float(delta_S(1.0, 0.0, 0.0, eta=1.0, N=4, d_g=4, tau=0.25))
    0.0
    """
    return eta / (d_g * N) * miss(logit_margin(A, R, S, N, d_g, zeta), N) * overlap_rates(A, N, d_g, tau)[1]
