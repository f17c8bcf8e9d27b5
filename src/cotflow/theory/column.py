"""Tier 3, column-resolved population theory: every column of every matrix, no data set.

States s couple only through attention, so M is kept as V[s, a, r] = m[a, r, s]: the logits of the next states r that
action a gives to state s. An action's own column counts with weight A, the mean column of all actions with 1 - A; the
other actions of a context are averaged out. docs/theory.md derives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ..attention import frequencies, scores, scores_pull_back, softmax
from ..config import Config
from ..gradients import backend
from ..observables import order_parameters, split_observables
from ..params import Params
from ..task import Split, chain
from ..trajectory import with_weights
from .border import Seeds, Start, alphas, for_each_seed, labelled, refuse
from .integrate import along

Array = NDArray[np.float64]
TOLERANCES = {"rtol": 1e-6, "atol": 1e-8}


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

    The state vector is (w_q, w_k, V), of length 2 d_h + d_g N^2.

    >>> theory = Column(np.array([[0, 1], [1, 0]]), L=3, eta=0.5, omega=np.array([1.0]))
    >>> theory(0.0, theory.pack(np.ones(2), np.ones(2), np.zeros((2, 2, 2)))).shape
    (12,)
    """

    permutations: NDArray[np.int64]
    L: int
    eta: float
    omega: Array
    frozen: str = "none"
    weight_decay: float = 0.0

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
        A = float(np.trace(pi)) / self.L
        V_mean = V.mean(axis=1)
        P = _softmax(A * V + ((1 - A) * V_mean)[:, None, :])
        dy = np.zeros_like(y)
        if self.frozen != "attention":
            unsure = P.mean(axis=1) - (P * P).mean(axis=1)  # mean_c P_c (1 - P_c), (N, N)
            spread = (V * V).mean(axis=1) - V_mean**2  # var_b V_b, (N, N)
            kappa = float((unsure * spread).sum()) / N
        D = self._error(P)
        D_mean = D.mean(axis=1)
        if self.frozen != "attention":
            dl_dpi = (kappa * pi - float((D_mean * V_mean).sum()) / N) / self.L
            np.fill_diagonal(dl_dpi, -float(np.vdot(D, V)) / (N * d_g * self.L))
            dl_dl = pi * (dl_dpi - (pi * dl_dpi).sum(axis=1, keepdims=True))
            pulled = np.concatenate(scores_pull_back(w_q, w_k, self.omega, dl_dl))
            dy[: len(pulled)] = -self.eta * d_g * N * (pulled + self.weight_decay * y[: len(pulled)])
        if self.frozen != "logic":
            D *= self.eta * A
            D += (self.eta * (1 - A) * D_mean)[:, None, :]
            dy[-D.size :] = D.ravel()
            if self.weight_decay:
                dy[-D.size :] -= self.eta * d_g * N * self.weight_decay * V.ravel()
        return dy

    def _error(self, P: Array) -> Array:
        """D[s, c] = onehot(sigma_c(s)) - P[s, c], in the place of P."""
        d_g, N = self.permutations.shape
        D = np.negative(P, out=P)
        D[np.arange(N)[:, None], np.arange(d_g), self.permutations.T] += 1.0
        return D


def _softmax(Z: Array) -> Array:
    """Softmax over the last axis, in the place of Z."""
    Z -= Z.max(axis=-1, keepdims=True)
    np.exp(Z, out=Z)
    Z /= Z.sum(axis=-1, keepdims=True)
    return Z


class LogitStatistics(NamedTuple):
    """Mean and variance of the correct logit (k) and of the other logits (o), over contexts and positions."""

    mu_k: float
    var_k: float
    mu_o: float
    var_o: float


def logit_statistics(permutations: NDArray[np.int64], pi: Array, V: Array) -> LogitStatistics:
    """Exact logit statistics over all contexts, for any attention pi (L, L) and columns V (N, d_g, N).

    Given the state, actions at different positions are independent and uniform. So the logit of r has the mean
    p V_c + (1 - p) V_mean over the other actions and the variance (q - p^2) var_b V_b, p = pi_tt, q = sum_j pi_tj^2.

    >>> swap = np.array([[0, 1], [1, 0]])
    >>> stats = logit_statistics(swap, np.eye(2), columns(3.0 * np.eye(2)[swap]))
    >>> stats.mu_k, stats.var_k, stats.mu_o, stats.var_o
    (3.0, 0.0, 0.0, 0.0)
    """
    d_g, N = permutations.shape
    p = np.diagonal(pi)
    left = float(((pi * pi).sum(axis=1) - p * p).mean())
    p1, p2 = float(p.mean()), float((p * p).mean())
    V_mean = V.mean(axis=1, keepdims=True)
    centred = V - V_mean
    spread = (centred * centred).mean(axis=1, keepdims=True)
    mean = V_mean + p1 * centred
    # over positions t: E (V_mean + p_t centred)^2, and what the other actions of the context add
    square = V_mean**2 + 2 * p1 * V_mean * centred + p2 * centred**2 + left * spread
    at = (np.arange(N)[:, None], np.arange(d_g), permutations.T)
    mu_k, square_k = float(mean[at].mean()), float(square[at].mean())
    others = N * d_g * (N - 1)
    mu_o = (float(mean.sum()) - mu_k * N * d_g) / others
    square_o = (float(square.sum()) - square_k * N * d_g) / others
    return LogitStatistics(mu_k, max(square_k - mu_k**2, 0.0), mu_o, max(square_o - mu_o**2, 0.0))


def column(
    cfg: Config,
    seed: Seeds = None,
    *,
    params: Params | None = None,
    draws: int = 8,
    rng: np.random.Generator | None = None,
    contexts: int = 4096,
) -> xr.Dataset:
    """Tier 3 as a trajectory: everything that a simulation measures, for a seed's own permutations and initial weights.

    Logit statistics are exact averages over all contexts. Loss and accuracies are measured, with the theory's attention
    and matrices, on the same `contexts` sequences at every epoch, drawn afresh from `default_rng([seed, 2])`; with
    contexts=0 they are left out. `params`, `draws`, `rng` and lists of seeds are as in `quenched`. One seed's result
    carries the initial and the final weights.

    >>> th = column(Config.preset("smoke"), seed=0, contexts=0)
    >>> bool(th.A[-1] > 0.9)
    True
    """
    refuse(cfg, "column", weight_decay=True)
    if contexts < 0:
        raise ValueError(f"contexts = {contexts} is not allowed; allowed: 0 or more")
    return for_each_seed(lambda one: _one_seed(cfg, one, params, contexts), seed, draws, rng, params)


def sample_contexts(cfg: Config, permutations: NDArray[np.int64], n: int, rng: np.random.Generator) -> Split:
    """Draw n fresh sequences of uniform actions from uniform first states.

    >>> cfg = Config.preset("smoke")
    >>> len(sample_contexts(cfg, Start.of(cfg, 0).permutations, 3, np.random.default_rng([0, 2])))
    3
    """
    actions = rng.integers(0, cfg.d_g, (n, cfg.L))
    return Split(actions, chain(permutations, actions, rng.integers(0, cfg.N, n)))


def _one_seed(cfg: Config, seed: int, params: Params | None, contexts: int) -> xr.Dataset:
    started, start = perf_counter(), Start.of(cfg, seed, params)
    theory = Column(start.permutations, cfg.L, cfg.lr, frequencies(cfg), cfg.freeze, cfg.weight_decay)
    sample = sample_contexts(cfg, start.permutations, contexts, np.random.default_rng([seed, 2]))
    rows = []
    y = first = theory.pack(start.params.w_q, start.params.w_k, start.params.m)
    for y in along(theory, first, alphas(cfg), **TOLERANCES):
        rows.append(_observed(cfg, theory, y, sample))
    curves = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    run = labelled(cfg, "column", curves, seed=seed, contexts=contexts, **TOLERANCES, wall_seconds=perf_counter() - started)
    return with_weights(run, start.params.astype(cfg.dtype), weights(theory, y).astype(cfg.dtype))


def weights(theory: Column, y: Array) -> Params:
    """The weights of a state vector."""
    w_q, w_k, V = theory.unpack(y)
    return Params(w_q, w_k, matrices(V))


def _observed(cfg: Config, theory: Column, y: Array, sample: Split) -> dict[str, Array | float]:
    """What tier 3 predicts at one moment."""
    pi, now = theory.attention(y), weights(theory, y)
    R, S = order_parameters(theory.permutations, now.m)
    observed = {"A": float(np.trace(pi)) / theory.L, "R": R, "S": S, "zeta": float(now.m.sum() / (cfg.d_g * cfg.N))}
    observed |= logit_statistics(theory.permutations, pi, theory.unpack(y)[2])._asdict()
    if len(sample):
        loss, next_token, rollout, *_ = split_observables(cfg, now.astype(cfg.dtype), sample, backend("fused"))
        observed |= {"loss": loss, "next_token_accuracy": next_token, "rollout_accuracy": rollout}
    return observed | {"attention": pi}
