"""Tier 2, quenched mean field: attention by its own weights, logic by two overlaps and one noise variance.

The state is w_q, w_k (d_h,), R, S and v, the variance of what is still random in M. Nothing is closed by a constant, so
the solution follows a seed's own initial weights. docs/theory.md derives it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Literal, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ..attention import frequencies, scores, scores_pull_back, softmax
from ..config import Config
from ..params import Params
from .border import Seeds, alphas, for_each_seed, labelled, refuse
from .integrate import along
from .meanfield import logit_margin, mean_correct_logit, mean_field_loss, mean_other_logit, miss
from .start import Data, Start
from .updates import overlap_rates

Array = NDArray[np.float64]
Noise = Literal["averaged", "mean"]
TOLERANCES = {"rtol": 1e-7, "atol": 1e-9}
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(15)


class Response(NamedTuple):
    """What a position's logits answer, each (L,): `miss`, the loss slope; `h`, the loss curvature; `loss` itself.

    >>> Response(miss=np.array([0.5]), h=np.array([0.4]), loss=np.array([0.7])).h
    array([0.4])
    """

    miss: Array
    h: Array
    loss: Array


def response_at_the_mean(margin: Array, N: int) -> Response:
    """The softmax at the mean logits: miss = 1/(1 + e^margin/(N-1)), h = 1 - (1-miss)^2 - miss^2/(N-1).

    >>> [round(float(x[0]), 3) for x in response_at_the_mean(np.zeros(1), 4)]
    [0.75, 0.75, 1.386]
    """
    eps = miss(margin, N)
    return Response(eps, 1 - (1 - eps) ** 2 - eps**2 / (N - 1), mean_field_loss(margin, N))


def response_under_noise(margin: Array, variance: Array, N: int) -> Response:
    """The softmax averaged over uniform noise of the given variance on every logit.

    The N - 1 other logits enter through the mean of e^noise, g1 = sinh(a)/a with a = sqrt(3 variance), and of its square,
    g2 = sinh(2a)/(2a); the correct one is integrated over 15 Gauss-Legendre points of U(-a, a):
    P(x) = 1/(1 + (N-1) g1 e^(-margin - x)), miss = E[1 - P], h = E[1 - P^2 - (1-P)^2 g2/(g1^2 (N-1))].

    >>> quiet = response_under_noise(np.zeros(1), np.zeros(1), 4)
    >>> bool(np.allclose(quiet, response_at_the_mean(np.zeros(1), 4)))
    True
    """
    a = np.sqrt(3 * np.maximum(variance, 0.0))
    log_g1, log_g2 = _log_sinhc(a), _log_sinhc(2 * a)
    others = np.log(N - 1) + log_g1[:, None] - margin[:, None] - a[:, None] * _NODES
    wrong = 1 / (1 + np.exp(-others))
    weights = _WEIGHTS / 2
    h = 1 - (1 - wrong) ** 2 - wrong**2 * np.exp(log_g2 - 2 * log_g1)[:, None] / (N - 1)
    return Response(wrong @ weights, h @ weights, np.logaddexp(0.0, others) @ weights)


def _log_sinhc(a: Array) -> Array:
    """ln(sinh(a)/a), for any a >= 0."""
    small = a < 1e-3
    safe = np.where(small, 1.0, a)
    return np.where(small, a * a / 6, safe + np.log1p(-np.exp(-2 * safe)) - np.log(2 * safe))


@dataclass(frozen=True)
class Quenched:
    """The equations of tier 2 for one network: sizes, frequencies omega (d_h/2,), rate eta, the logits' sum zeta
    at first, the overlap tau of different teacher matrices. `decay` is the rate of weight decay, eta d_g N weight_decay;
    `unexplained` (L, L) what the training set's dl/dpi at the start had beyond the theory's, for a miss of one: it fades
    with the mean miss.

    >>> theory = Quenched(N=4, L=3, d_g=4, eta=0.5, omega=np.array([1.0]), zeta=0.0, tau=0.25)
    >>> y = theory.pack(np.ones(2), np.ones(2), R=0.0, S=0.0, v=0.3)
    >>> theory(0.0, y).shape
    (7,)
    """

    N: int
    L: int
    d_g: int
    eta: float
    omega: Array
    zeta: float
    tau: float
    noise: Noise = "averaged"
    frozen: str = "none"
    decay: float = 0.0
    unexplained: Array | float = 0.0

    @classmethod
    def of(cls, cfg: Config, start: Start, noise: Noise = "averaged") -> Quenched:
        """The equations for a configuration and a seed's start."""
        sizes, decay = (cfg.N, cfg.L, cfg.d_g, cfg.lr), cfg.lr * cfg.d_g * cfg.N * cfg.weight_decay
        theory = cls(*sizes, frequencies(cfg), start.zeta, start.tau, noise, cfg.freeze, decay)
        if start.pull is None:
            return theory
        y = theory.begin(start)
        response, dl_dpi = theory.pull(0.0, y, theory.attention(y))
        return replace(theory, unexplained=(start.pull - dl_dpi) / max(float(response.miss.mean()), 1e-12))

    def begin(self, start: Start) -> Array:
        """The state vector of a start."""
        return self.pack(start.params.w_q, start.params.w_k, *start.overlaps, start.noise)

    def pack(self, w_q: Array, w_k: Array, R: float, S: float, v: float) -> Array:
        """The state vector (w_q, w_k, R, S, v)."""
        return np.concatenate([w_q, w_k, [R, S, v]]).astype(np.float64)

    def unpack(self, y: Array) -> tuple[Array, Array, float, float, float]:
        """w_q, w_k, R, S, v of a state vector."""
        d_h = 2 * len(self.omega)
        return y[:d_h], y[d_h : 2 * d_h], float(y[-3]), float(y[-2]), float(y[-1])

    def attention(self, y: Array) -> Array:
        """The attention matrix pi (L, L) of a state."""
        w_q, w_k, *_ = self.unpack(y)
        return softmax(scores(w_q, w_k, self.omega, self.L))

    def decayed(self, alpha: float) -> float:
        """The share of an untrained weight that weight decay has left: 1 without it."""
        return 1.0 if self.frozen == "logic" else float(np.exp(-self.decay * alpha))

    def response(self, alpha: float, y: Array, pi: Array) -> Response:
        """Loss slope, curvature and loss at each position."""
        *_, R, S, v = self.unpack(y)
        p, q = np.diagonal(pi), (pi * pi).sum(axis=1)
        margin = logit_margin(p, R, S, self.N, self.d_g, self.zeta * self.decayed(alpha))
        if self.noise == "mean":
            return response_at_the_mean(margin, self.N)
        mixed = (q - p * p) * (1 - 1 / self.d_g) * self.signal(R, S)
        return response_under_noise(margin, v * self.passed(pi) + mixed, self.N)

    def passed(self, pi: Array) -> Array:
        """The share o2 = E sum_b o_b^2 of the noise of M that attention lets through to the logits, at each position."""
        q = (pi * pi).sum(axis=1)
        return q + (1 - q) / self.d_g

    def signal(self, R: float, S: float) -> float:
        """Variance over actions of what they have learned, (R - S)^2 (N - 1)/N^2: a wrong action's is noise too."""
        return 0.0 if self.noise == "mean" else (R - S) ** 2 * (self.N - 1) / self.N**2

    def pull(self, alpha: float, y: Array, pi: Array) -> tuple[Response, Array]:
        """The response of the logits, and dl/dpi (L, L)."""
        N, d_g = self.N, self.d_g
        *_, R, S, v = self.unpack(y)
        response = self.response(alpha, y, pi)
        cost = np.full_like(pi, v + self.signal(R, S))
        np.fill_diagonal(cost, v)
        dl_dpi = (1 - 1 / d_g) * response.h[:, None] * cost * pi
        dl_dpi -= np.diag(response.miss * (N / (N - 1) * (d_g - 1) / d_g * (R - S)))
        return response, dl_dpi / self.L + self.unexplained * float(response.miss.mean())

    def __call__(self, alpha: float, y: Array) -> Array:
        """dy/dalpha."""
        N, d_g, eta = self.N, self.d_g, self.eta
        w_q, w_k, R, S, v = self.unpack(y)
        pi = self.attention(y)
        (slope, h, _), dl_dpi = self.pull(alpha, y, pi)
        dy = np.zeros_like(y)
        if self.frozen != "attention":
            dl_dl = pi * (dl_dpi - (pi * dl_dpi).sum(axis=1, keepdims=True))
            dy[:-3] = -eta * d_g * N * np.concatenate(scores_pull_back(w_q, w_k, self.omega, dl_dl)) - self.decay * y[:-3]
        if self.frozen != "logic":
            to_R, to_S = overlap_rates(np.diagonal(pi), N, d_g, self.tau)
            dy[-3] = eta * np.mean(slope * to_R) - self.decay * R
            dy[-2] = eta * np.mean(slope * to_S) - self.decay * S
            dy[-1] = -2 * v * (eta * np.mean(h * self.passed(pi)) / (N - 1) + self.decay)
        return dy


def quenched(
    cfg: Config,
    seed: Seeds = None,
    *,
    params: Params | None = None,
    draws: int = 60,
    rng: np.random.Generator | None = None,
    data: Data = "training",
    noise: Noise = "averaged",
) -> xr.Dataset:
    """Tier 2 as a trajectory: A, R, S, mean logits, loss, attention, from a seed's own initial weights.

    `params` starts from other weights with the seed's permutations. `data="training"` knows how the loss of the seed's
    training set asks attention to move at the start, "population" describes an infinite set. A list of seeds, or seed=None
    for `draws` seeds drawn at random by `rng`, gives a dimension `seed`: mean and spread are `.mean("seed")` and
    `.std("seed")`. `noise="mean"` evaluates the softmax at the mean logits, the simpler and less accurate form.

    >>> th = quenched(Config.preset("smoke"), seed=0)
    >>> th.A.dims, th.attention.dims
    (('epoch',), ('epoch', 't', 'j'))
    """
    refuse(cfg, "quenched", weight_decay=True)
    if noise not in ("averaged", "mean"):
        raise ValueError(f"noise = {noise!r} is not allowed; allowed: 'averaged' or 'mean'")
    return for_each_seed(lambda one: _one_seed(cfg, one, params, data, noise), seed, draws, rng, params)


def _one_seed(cfg: Config, seed: int, params: Params | None, data: Data, noise: Noise) -> xr.Dataset:
    started, start = perf_counter(), Start.of(cfg, seed, params, data)
    theory = Quenched.of(cfg, start, noise)
    path = along(theory, theory.begin(start), alphas(cfg), **TOLERANCES)
    rows = [_observed(theory, alpha, y) for alpha, y in zip(alphas(cfg), path, strict=True)]
    curves = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    known = {"seed": seed, "data": data, "noise": noise}
    return labelled(cfg, "quenched", curves, **known, **TOLERANCES, wall_seconds=perf_counter() - started)


def _observed(theory: Quenched, alpha: float, y: Array) -> dict[str, Array | float]:
    """What tier 2 predicts at one moment."""
    pi, zeta = theory.attention(y), theory.zeta * theory.decayed(alpha)
    *_, R, S, _ = theory.unpack(y)
    mu_k = mean_correct_logit(np.diagonal(pi), R, S, theory.d_g)
    return {
        "A": float(np.trace(pi)) / theory.L,
        "R": R,
        "S": S,
        "zeta": zeta,
        "loss": float(theory.response(alpha, y, pi).loss.mean()),
        "mu_k": float(np.mean(mu_k)),
        "mu_o": float(np.mean(mean_other_logit(mu_k, theory.N, zeta))),
        "attention": pi,
    }
