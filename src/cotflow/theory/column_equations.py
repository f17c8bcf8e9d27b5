"""The equations of tier 3: every column of every matrix, no data set but the frequencies of its (state, action) pairs.

States s couple only through attention, so M is kept as V[s, a, r] = m[a, r, s]: the logits of the next states r that
action a gives to state s. An action's own column counts with weight p = pi_tt, the mean column of all actions with 1 - p;
the other actions of a context are averaged out. docs/theory.md derives it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..attention import frequencies, scores, scores_pull_back, softmax
from ..config import Config
from .start import Start

Array = NDArray[np.float64]


def columns(m: NDArray[np.floating]) -> Array:
    """V[s, a, r] = m[a, r, s] as float64, shape (N, d_g, N).

    >>> columns(np.arange(8).reshape(2, 2, 2))[1, 0]
    array([1., 3.])
    """
    return np.ascontiguousarray(np.transpose(m, (2, 0, 1)), dtype=np.float64)


def matrices(V: Array) -> Array:
    """m[a, r, s] = V[s, a, r], the inverse of `columns`; shape (d_g, N, N).

    >>> m = np.arange(8.0).reshape(2, 2, 2)
    >>> bool((matrices(columns(m)) == m).all())
    True
    """
    return np.ascontiguousarray(np.transpose(V, (1, 2, 0)))


@dataclass(frozen=True)
class Column:
    """The equations of tier 3 for one vocabulary: permutations (d_g, N), frequencies omega (d_h/2,), rate eta, L steps.

    `share` (N, d_g) weights each state and action by how often a finite training set holds it, 1 on average. What an item
    teaches about itself reaches all positions of its context alike, but `share` sees it at its own position only: the
    fraction `memory`, one over the mean count of a (state, action), of what a column has learned since `first` (N, d_g, N)
    does not pull attention. `unexplained` (L, L) is what the training set's dl/dpi at the start had beyond the theory's,
    for a miss of one; it fades with the mean miss. The state vector is (w_q, w_k, V), of length 2 d_h + d_g N^2.

    >>> theory = Column(np.array([[0, 1], [1, 0]]), L=3, eta=0.5, omega=np.array([1.0]), share=np.ones((2, 2)))
    >>> theory(0.0, theory.pack(np.ones(2), np.ones(2), np.zeros((2, 2, 2)))).shape
    (12,)
    """

    permutations: NDArray[np.int64]
    L: int
    eta: float
    omega: Array
    share: Array
    frozen: str = "none"
    weight_decay: float = 0.0
    memory: float = 0.0
    first: Array | float = 0.0
    unexplained: Array | float = 0.0

    @classmethod
    def of(cls, cfg: Config, start: Start) -> Column:
        """The equations for a configuration and a seed's start."""
        first, rest = columns(start.params.m), (cfg.freeze, cfg.weight_decay, start.memory)
        theory = cls(start.permutations, cfg.L, cfg.lr, frequencies(cfg), start.share, *rest, first)
        if start.pull is None:
            return theory
        pi = theory.attention(theory.pack(start.params.w_q, start.params.w_k, start.params.m))
        _, dl_dpi, miss = theory._answer(first, pi)
        return replace(theory, unexplained=(start.pull - dl_dpi) / max(miss, 1e-12))

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape (N, d_g, N) of V."""
        d_g, N = self.permutations.shape
        return N, d_g, N

    def pack(self, w_q: Array, w_k: Array, m: NDArray[np.floating]) -> Array:
        """The state vector of weights w_q, w_k (d_h,), m (d_g, N, N)."""
        return np.concatenate([w_q, w_k, columns(m).ravel()]).astype(np.float64)

    def unpack(self, y: Array) -> tuple[Array, Array, Array]:
        """w_q, w_k, V of a state vector."""
        d_h = 2 * len(self.omega)
        return y[:d_h], y[d_h : 2 * d_h], y[2 * d_h :].reshape(self.shape)

    def attention(self, y: Array) -> Array:
        """The attention matrix pi (L, L) of a state."""
        w_q, w_k, _ = self.unpack(y)
        return softmax(scores(w_q, w_k, self.omega, self.L))

    def __call__(self, alpha: float, y: Array) -> Array:
        """dy/dalpha."""
        N, d_g, _ = self.shape
        w_q, w_k, V = self.unpack(y)
        pi = softmax(scores(w_q, w_k, self.omega, self.L))
        dV, dl_dpi, _ = self._answer(V, pi)
        dy = np.zeros_like(y)
        if self.frozen != "attention":
            dl_dl = pi * (dl_dpi - (pi * dl_dpi).sum(axis=1, keepdims=True))
            pulled = np.concatenate(scores_pull_back(w_q, w_k, self.omega, dl_dl))
            dy[: len(pulled)] = -self.eta * d_g * N * (pulled + self.weight_decay * y[: len(pulled)])
        if self.frozen != "logic":
            dy[-V.size :] = self.eta * (dV - d_g * N * self.weight_decay * V if self.weight_decay else dV).ravel()
        return dy

    def _answer(self, V: Array, pi: Array) -> tuple[Array, Array, float]:
        """What columns and attention learn from each other: dV/dalpha per eta, dl/dpi (L, L), and the mean miss."""
        N, d_g, _ = self.shape
        p, V_mean = np.diagonal(pi), V.mean(axis=1)
        C = V - V_mean[:, None, :]
        covariance = _second_moments(C)  # Cov_b V_b
        pulling = V - self.memory * self._learned(V) if self.memory else V
        nodes, weights = two_point_rule(p)
        pulls, dV = np.empty((4, len(nodes))), np.zeros_like(V)
        P_mean, P_squares = np.zeros_like(V_mean), np.zeros_like(covariance)
        for k, (x, weight) in enumerate(zip(nodes, weights, strict=True)):
            P = x * C
            P += V_mean[:, None, :]
            _softmax(P)
            certainty, squares = P.mean(axis=1), _second_moments(P)
            P_mean += weight * certainty
            P_squares += weight * squares
            cost = np.einsum("sr,srr->", certainty, covariance) - (squares * covariance).sum()
            hit = P[self._targets()].sum() / d_g
            D = self._error(P)
            D_mean = D.mean(axis=1)
            own, other = np.einsum("sar,sar->", D, pulling) / d_g, (D_mean * V_mean).sum()
            pulls[:, k] = own, other, cost, N - hit
            D *= weight * x
            D += (weight * (1 - x) * D_mean)[:, None, :]
            dV += D
        mixing = float(np.mean((pi * pi).sum(axis=1) - p * p))
        dV -= mixing * (P_mean[:, None, :] * C - C @ P_squares)
        miss = float(pulls[3] @ weights) / N
        own, other, kappa = _through(nodes, pulls[:3] / N, p)
        dl_dpi = (kappa[:, None] * pi - other[:, None]) / self.L
        np.fill_diagonal(dl_dpi, -own / self.L)
        return dV, dl_dpi + self.unexplained * miss, miss

    def _targets(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Where the correct next state of each (state, action) stands in an array (N, d_g, N)."""
        d_g, N = self.permutations.shape
        return np.arange(N)[:, None], np.arange(d_g), self.permutations.T

    def _learned(self, V: Array) -> Array:
        """What each column has learned that the mean column of its state has not."""
        grown = V - self.first
        return grown - grown.mean(axis=1, keepdims=True)

    def _error(self, P: Array) -> Array:
        """D[s, c] = share[s, c] (onehot(sigma_c(s)) - P[s, c]), in the place of P."""
        D = np.negative(P, out=P)
        D[self._targets()] += 1.0
        D *= self.share[:, :, None]
        return D


def two_point_rule(p: Array) -> tuple[Array, Array]:
    """Nodes and weights of the two-point Gauss rule for the positions' own attention p (L,).

    Their mean, variance and third moment are those of p, so an average over positions is exact up to cubic terms in p.
    One node is left where the positions agree.

    >>> nodes, weights = two_point_rule(np.array([0.2, 0.2, 0.8]))
    >>> nodes.round(12), weights.round(12)
    (array([0.2, 0.8]), array([0.66666667, 0.33333333]))
    """
    centred = p - p.mean()
    variance = float(np.mean(centred**2))
    if variance < 1e-14:
        return np.array([p.mean()]), np.ones(1)
    skew = float(np.mean(centred**3)) / variance
    root = np.sqrt(skew**2 + 4 * variance)
    below, above = (skew - root) / 2, (skew + root) / 2
    return p.mean() + np.array([below, above]), np.array([above, -below]) / root


def _second_moments(X: Array) -> Array:
    """Mean over actions of X X^T for X (N, d_g, N), state by state; (N, N, N)."""
    return X.transpose(0, 2, 1) @ X / X.shape[1]


def _through(nodes: Array, values: Array, p: Array) -> Array:
    """Values (k, nodes) carried to the positions p (L,) along the line through the nodes; shape (k, L)."""
    if len(nodes) == 1:
        return np.repeat(values, len(p), axis=1)
    place = (p - nodes[0]) / (nodes[1] - nodes[0])
    return values[:, :1] + (values[:, 1:] - values[:, :1]) * place


def _softmax(Z: Array) -> Array:
    """Softmax over the last axis, in the place of Z."""
    Z -= Z.max(axis=-1, keepdims=True)
    np.exp(Z, out=Z)
    Z /= Z.sum(axis=-1, keepdims=True)
    return Z
