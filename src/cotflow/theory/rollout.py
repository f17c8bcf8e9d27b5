"""When does the last state of a chain come out right?

One step is right with a probability rho that follows from Gaussian logits; a chain of L steps is a two-state Markov
chain, on the track or off it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from .meanfield import Real

Array = NDArray[np.float64]


def next_token_probability(mu_k: Real, var_k: Real, mu_o: Real, var_o: Real, N: int) -> Array:
    """rho: the probability that a Gaussian correct logit exceeds N - 1 independent Gaussian others (Section 5, Eq. 17).

    rho = int du phi(u) Phi((sigma_k u + mu_k - mu_o) / sigma_o)^(N-1); all arguments broadcast. Where sigma_k > sigma_o
    the same probability is integrated over the largest of the others instead, so that the integrand never has a step
    sharper than a normal distribution's, and the trapezoidal rule on |u| < 9 is good to 1e-12. Variances may vanish;
    a tie of all logits counts 1/N.

    >>> float(next_token_probability(0.0, 1.0, 0.0, 1.0, N=8).round(12))
    0.125
    >>> next_token_probability([0.0, 5.0], 0.0, 0.0, 1.0, N=2).round(6)
    array([0.5, 1. ])
    """
    mu_k, var_k, mu_o, var_o = (np.asarray(x, dtype=np.float64) for x in (mu_k, var_k, mu_o, var_o))
    for name, variance in (("var_k", var_k), ("var_o", var_o)):
        if (variance < 0).any():
            raise ValueError(f"{name} holds {variance.min():g}; allowed: variances of 0 or more")
    gap, sigma_k, sigma_o = np.broadcast_arrays(mu_k - mu_o, np.sqrt(var_k), np.sqrt(var_o))
    rho = np.where(gap > 0, 1.0, np.where(gap < 0, 0.0, 1 / N))  # what is left where both variances vanish
    u, step = np.linspace(-9.0, 9.0, 401, retstep=True)
    wide = (sigma_k > sigma_o)[..., None]
    wider, narrower = np.maximum(sigma_k, sigma_o)[..., None], np.minimum(sigma_k, sigma_o)[..., None]
    noisy = wider > 0
    scale = np.where(noisy, wider, 1.0)
    over_correct = (N - 1) * log_ndtr((narrower * u + gap[..., None]) / scale) - u * u / 2
    over_largest = np.log(N - 1) + (N - 2) * log_ndtr(u) - u * u / 2 + log_ndtr((gap[..., None] - narrower * u) / scale)
    integral = step * np.exp(np.where(wide, over_largest, over_correct)).sum(axis=-1) / np.sqrt(2 * np.pi)
    return np.where(noisy[..., 0], integral, rho)


def wrong_recovery(rho: Real, N: int) -> Real:
    """B = (1 - A)/(N - 1): how often a step from a wrong state lands on the right one, if errors have no preference (Eq. 86).

    >>> wrong_recovery(0.5, 3)
    0.25
    """
    return (1 - rho) / (N - 1)


def rollout_recursion(right: Array, recover: Array) -> Array:
    """P(state t is right) for t = 0..L, from rho_{t+1} = rho_t (A_t - B_t) + B_t and rho_0 = 1 (Eq. 84).

    right, recover (..., L): A_t, the accuracy of step t from the right state, and B_t, from a wrong one.

    >>> rollout_recursion(np.array([0.5, 0.5]), np.array([0.5, 0.0]))
    array([1.  , 0.5 , 0.25])
    """
    right, recover = np.broadcast_arrays(np.asarray(right, np.float64), np.asarray(recover, np.float64))
    chain = np.ones((*right.shape[:-1], right.shape[-1] + 1))
    for t in range(right.shape[-1]):
        chain[..., t + 1] = chain[..., t] * (right[..., t] - recover[..., t]) + recover[..., t]
    return chain


def rollout_product(right: Array, recover: Array) -> Array:
    """P(last state is right) in the paper's product form, the solution of the recursion (Appendix I, Eq. 85).

    A_0 prod_{t=1}^{L-1} (A_t - B_t) + sum_{t=1}^{L-1} B_t prod_{i=t+1}^{L-1} (A_i - B_i).

    >>> float(rollout_product(np.array([0.5, 0.5]), np.array([0.5, 0.0])))
    0.25
    """
    right, recover = np.broadcast_arrays(np.asarray(right, np.float64), np.asarray(recover, np.float64))
    difference = right - recover
    tails = [np.prod(difference[..., t + 1 :], axis=-1) for t in range(right.shape[-1])]
    recovered = sum((recover[..., t] * tails[t] for t in range(1, right.shape[-1])), np.zeros(right.shape[:-1]))
    return right[..., 0] * tails[0] + recovered


def rollout_probability(rho: Real, N: int, L: int) -> Real:
    """P(last state is right) = (N-1)/N ((N rho - 1)/(N - 1))^L + 1/N (Eq. 18).

    >>> rollout_probability(1.0, 8, 5), rollout_probability(1 / 8, 8, 5)
    (1.0, 0.125)
    """
    return (N - 1) / N * ((N * rho - 1) / (N - 1)) ** L + 1 / N


def gaussian_rollout(mu_k: Real, var_k: Real, mu_o: Real, var_o: Real, N: int, L: int) -> tuple[Array, Array]:
    """Next-token and final rollout accuracy from logit statistics; hand in constant, empirical or predicted ones.

    >>> next_token, final = gaussian_rollout(np.array([0.0, 9.0]), 1.0, 0.0, 1.0, N=8, L=5)
    >>> final.round(3)
    array([0.125, 1.   ])
    """
    rho = next_token_probability(mu_k, var_k, mu_o, var_o, N)
    return rho, rollout_probability(rho, N, L)


def crossing(alpha: Array, curve: Array, level: float = 0.5) -> float:
    """The training time at which a curve first reaches a level, by linear interpolation; NaN if it never does.

    >>> crossing(np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.25, 0.75]))
    1.5
    """
    above = np.flatnonzero(np.asarray(curve) >= level)
    if len(above) == 0:
        return float("nan")
    k = int(above[0])
    if k == 0:
        return float(alpha[0])
    share = (level - curve[k - 1]) / (curve[k] - curve[k - 1])
    return float(alpha[k - 1] + share * (alpha[k] - alpha[k - 1]))
