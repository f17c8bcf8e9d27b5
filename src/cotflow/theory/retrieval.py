"""How fast can attention move? The gradient of A, and the constant c_omega that closes it.

Attention enters through the plane frequencies omega (d_h/2,) and the weights w_q, w_k (d_h,); components (2n, 2n+1)
of a weight vector belong to plane n. Positions are 0-based, so that Omega(D) stands at the lag D = k - t - L.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def coherence(omega: Array, L: int) -> Array:
    """(1/L^2) (sin(omega L/2) / sin(omega/2))^2 for each plane: 1 where omega is a multiple of 2 pi.

    It is the mean of cos(omega (i - j)) over all pairs of the L positions.

    >>> coherence(np.array([0.0, 2 * np.pi, np.pi]), 4).round(12) + 0.0
    array([1., 1., 0.])
    """
    angle = np.mod(np.asarray(omega, dtype=np.float64) + np.pi, 2 * np.pi) - np.pi
    slow = np.abs(angle) < 1e-8  # there the ratio is L up to a relative angle^2 L^2
    half = np.where(slow, 1.0, angle / 2)
    return np.where(slow, 1.0, (np.sin(L * half) / (L * np.sin(half))) ** 2)


def lag_eigenvalues(omega: Array, L: int) -> Array:
    """lambda_n = [(1/L) (sin(omega_n L/2) / sin(omega_n/2))^2 - 1] / (L - 1), the diagonal of Lambda (Appendix E, Eq. 70).

    >>> lag_eigenvalues(np.array([0.0, np.pi]), 4).round(12)
    array([ 1.        , -0.33333333])
    """
    return (L * coherence(omega, L) - 1) / (L - 1)


def lag_norm(w: Array, omega: Array, L: int) -> float:
    """w^T (1 - Lambda)^2 w for a key or query vector w (d_h,).

    >>> lag_norm(np.ones(2), np.array([np.pi]), 4)
    3.5555...
    """
    return float(np.sum(np.repeat((1 - lag_eigenvalues(omega, L)) ** 2, 2) * w * w))


def c_omega(N: int, L: int, d_g: int, d_h: int, omega: Array, variance: float) -> float:
    """The closure constant of Eq. (14), averaged over weights of the given variance.

    (2 d_g N / (L (L-1))) sigma^2 (2/d_h) sum_n [1 - (sin(omega_n L/2) / (L sin(omega_n/2)))^2]^2

    >>> omega = 2 * np.pi * 10_000.0 ** (-2 * np.arange(64) / 128)
    >>> round(c_omega(32, 10, 32, 128, omega, 1 / 3), 8)
    2.28348747
    """
    return float(2 * d_g * N / (L * (L - 1)) * variance * (2 / d_h) * np.sum((1 - coherence(omega, L)) ** 2))


def c_omega_of(w_q: Array, w_k: Array, omega: Array, N: int, L: int, d_g: int) -> float:
    """The same constant for given weights, before the average over initialisations (Appendix E, Eq. 71).

    >>> omega, ones = np.array([np.pi, 1.0]), np.ones(4)
    >>> bool(np.isclose(c_omega_of(ones, ones, omega, N=3, L=5, d_g=2), c_omega(3, 5, 2, 4, omega, variance=1.0)))
    True
    """
    norms = lag_norm(w_q, omega, L) + lag_norm(w_k, omega, L)
    return d_g * N / L * (L - 1) / L**2 * norms / len(w_q)


def c_of_A(A: float, w_q: Array, w_k: Array, omega: Array, N: int, L: int, d_g: int) -> float:
    """c(A) = d_g N |grad A|^2 where attention is A on the diagonal and (1 - A)/(L - 1) off it (Eqs. 63, 69).

    d_g N A^2 (1-A)^2 [w_k^T (1-Lambda)^2 w_k + w_q^T (1-Lambda)^2 w_q] / d_h. It equals L c_omega A (1-A) at A = 1/L.

    >>> omega, ones = np.array([np.pi, 1.0]), np.ones(4)
    >>> left = c_of_A(1 / 5, ones, ones, omega, N=3, L=5, d_g=2)
    >>> bool(np.isclose(left, 5 * c_omega_of(ones, ones, omega, N=3, L=5, d_g=2) * (1 / 5) * (4 / 5)))
    True
    """
    norms = lag_norm(w_q, omega, L) + lag_norm(w_k, omega, L)
    return d_g * N * A**2 * (1 - A) ** 2 * norms / len(w_q)


def uniform_off_diagonal(A: float, L: int) -> Array:
    """The ansatz of Appendix E for attention, shape (L, L): A on the diagonal, (1 - A)/(L - 1) elsewhere.

    >>> uniform_off_diagonal(0.5, 3)[0]
    array([0.5 , 0.25, 0.25])
    """
    return np.full((L, L), (1 - A) / (L - 1)) + (A - (1 - A) / (L - 1)) * np.eye(L)


def rotation(omega: Array, lag: float) -> Array:
    """Omega(lag), shape (d_h, d_h): a plane rotation [[cos, -sin], [sin, cos]](omega_n lag) for each plane (Eq. 5).

    >>> rotation(np.array([np.pi / 2]), 1).round(12) + 0.0
    array([[ 0., -1.],
           [ 1.,  0.]])
    """
    blocks = np.zeros((2 * len(omega), 2 * len(omega)))
    even = np.arange(0, 2 * len(omega), 2)
    blocks[even, even] = blocks[even + 1, even + 1] = np.cos(omega * lag)
    blocks[even + 1, even] = np.sin(omega * lag)
    blocks[even, even + 1] = -blocks[even + 1, even]
    return blocks


def gradient_of_A(pi: Array, w_q: Array, w_k: Array, omega: Array) -> tuple[Array, Array]:
    """The gradient of A with respect to w_q and w_k, step by step as in Appendix E, Eqs. 62 to 68.

    dA/dpi_tt = 1/L, dpi_tt/dl_tk = pi_tt (delta_tk - pi_tk), dl_tk/dw_q = Omega(D) w_k / sqrt(d_h) and
    dl_tk/dw_k = Omega(-D) w_q / sqrt(d_h) at the lag D = k - t - L. Any pi (L, L) may be put in: the true attention
    gives the true gradient, the uniform ansatz gives the one behind `c_of_A`.

    >>> w = np.ones(2)
    >>> gradient_of_A(np.full((2, 2), 0.5), w, w, np.array([0.0]))[0]
    array([0., 0.])
    """
    L, p = len(pi), np.diagonal(pi)
    slope = p[:, None] * (np.eye(L) - pi) / L
    # the lag alone matters: collect the slopes of all (t, k) that share k - t
    by_lag = {offset: float(np.trace(slope, offset)) for offset in range(1 - L, L)}
    mixed = sum((total * rotation(omega, offset - L) for offset, total in by_lag.items()), np.zeros((len(w_q),) * 2))
    return mixed @ w_k / np.sqrt(len(w_q)), mixed.T @ w_q / np.sqrt(len(w_q))


def initial_concentration(omega: Array, L: int, variance: float) -> float:
    """Mean of q = sum_j pi_tj^2 at random initial weights, for small attention logits: to second order in them, at most 1.

    Attention logits have variance variance^2 and the covariance variance^2 (2/d_h) sum_n cos(omega_n (D - D')), so
    q = (1/L) [1 + variance^2 (2/d_h) sum_n (1 - coherence_n)]: slightly above the 1/L of uniform attention.

    >>> initial_concentration(np.array([0.0]), 10, 1 / 3)
    0.1
    """
    return min(float((1 + variance**2 * np.mean(1 - coherence(omega, L))) / L), 1.0)
