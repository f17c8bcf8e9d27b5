"""What are the mean logits, and which loss do they make?

Letters as in the paper: A, R, S order parameters, N states, d_g actions, zeta the conserved sum of a logit vector.
Everything broadcasts, so each argument may be a number or an array over time or position.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Real = Any  # a float or an array of floats: pyright cannot express NumPy's broadcasting rules


def coefficients(A: Real, d_g: int) -> tuple[Real, Real]:
    """c_R = A + (1 - A)/d_g and c_S = 1 - c_R: the weights of R and S in the mean correct logit (Appendix E, Eq. 46).

    >>> coefficients(0.25, 4)
    (0.4375, 0.5625)
    """
    c_R = A + (1 - A) / d_g
    return c_R, 1 - c_R


def mean_correct_logit(A: Real, R: Real, S: Real, d_g: int) -> Real:
    """mu_k = (A + (1 - A)/d_g) R + (d_g - 1)/d_g (1 - A) S (Eq. 11).

    >>> mean_correct_logit(1.0, 2.0, 0.5, 4)
    2.0
    """
    c_R, c_S = coefficients(A, d_g)
    return c_R * R + c_S * S


def mean_other_logit(mu_k: Real, N: int, zeta: Real = 0.0) -> Real:
    """mu_o = (zeta - mu_k) / (N - 1): training conserves the sum of the logits (Eq. 12).

    >>> mean_other_logit(3.0, 4)
    -1.0
    """
    return (zeta - mu_k) / (N - 1)


def logit_margin(A: Real, R: Real, S: Real, N: int, d_g: int, zeta: Real = 0.0) -> Real:
    """m(A, R, S) = mu_k - mu_o, the logit margin of Eqs. (15a-c).

    >>> logit_margin(1.0, 3.0, 0.0, N=4, d_g=4)
    4.0
    """
    mu_k = mean_correct_logit(A, R, S, d_g)
    return mu_k - mean_other_logit(mu_k, N, zeta)


def miss(margin: Real, N: int) -> Real:
    """1 / (1 + e^margin / (N - 1)): one minus the probability of the correct state at the mean logits.

    It is also -d loss / d mu_k = d loss / d mu_o (Eq. 43), and drives every equation of motion.

    >>> round(float(miss(0.0, 4)), 12)
    0.75
    """
    return expit(np.log(N - 1) - margin)


def mean_field_loss(margin: Real, N: int) -> Real:
    """l_CE = -mu_k + ln(e^mu_k + (N - 1) e^mu_o) = ln(1 + (N - 1) e^-margin) (Section 4.2, Eq. 10).

    >>> round(float(np.exp(mean_field_loss(0.0, 4))), 12)
    4.0
    """
    return np.logaddexp(0.0, np.log(N - 1) - margin)


def conserved_sum(m: NDArray[np.floating]) -> float:
    """The mean sum of a logit vector, zeta = sum(m) / (d_g N); m (d_g, N, N) (Appendix D, Eq. 40).

    >>> conserved_sum(np.ones((2, 3, 3)))
    3.0
    """
    d_g, N, _ = m.shape
    return float(m.sum(dtype=np.float64) / (d_g * N))


def correct_logit_of(pi: NDArray[np.floating], overlaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean correct logit at each position for an arbitrary attention matrix, shape (L,) (Appendix D, Eqs. 34 and 35).

    pi (L, L) with rows that sum to 1, overlaps (d_g, d_g) = tr(M*_a^T M_b)/N. The mean is over independent uniform
    actions and initial state: pi_tt R + (1 - pi_tt) sum_ab overlaps / d_g^2. No ansatz enters.

    >>> correct_logit_of(np.array([[1.0, 0.0], [0.5, 0.5]]), np.eye(2))
    array([1.  , 0.75])
    """
    p = np.diagonal(pi).astype(np.float64)
    return p * np.diagonal(overlaps).mean() + (1 - p) * overlaps.mean()


def mean_logit_vector(m: NDArray[np.floating]) -> NDArray[np.float64]:
    """Mean of the logit of each next state, <z_r> = sum_{a, s} m[a, r, s] / (d_g N), shape (N,) (Appendix D, Eq. 39).

    It holds for any attention, because its rows sum to 1; its sum over r is zeta.

    >>> mean_logit_vector(np.ones((2, 3, 3)))
    array([1., 1., 1.])
    """
    return m.mean(axis=(0, 2), dtype=np.float64)
