"""Tier 3, column-resolved population theory: everything that a simulation measures, from a seed's own disorder."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ..config import Config
from ..gradients import backend
from ..observables import order_parameters, split_observables
from ..params import Params
from ..task import Split, chain
from ..trajectory import with_weights
from .border import Seeds, alphas, for_each_seed, labelled, refuse, whole_number
from .column_equations import Column, matrices
from .integrate import along
from .start import Data, Start

Array = NDArray[np.float64]
TOLERANCES = {"rtol": 1e-6, "atol": 1e-8}


class LogitStatistics(NamedTuple):
    """Mean and variance of the correct logit (k) and of the other logits (o), over contexts and positions.

    >>> LogitStatistics(mu_k=2.0, var_k=0.1, mu_o=-0.5, var_o=0.2).mu_o
    -0.5
    """

    mu_k: float
    var_k: float
    mu_o: float
    var_o: float


def logit_statistics(permutations: NDArray[np.int64], pi: Array, V: Array) -> LogitStatistics:
    """Exact logit statistics over all contexts, for any attention pi (L, L) and columns V (N, d_g, N).

    Given the state, actions at different positions are independent and uniform. So the logit of r has the mean
    p V_c + (1 - p) V_mean over the other actions and the variance (q - p^2) var_b V_b, p = pi_tt, q = sum_j pi_tj^2.

    >>> from cotflow.theory.column_equations import columns
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
    data: Data = "training",
    contexts: int = 4096,
) -> xr.Dataset:
    """Tier 3 as a trajectory: everything that a simulation measures, for a seed's own permutations and initial weights.

    `data="training"` knows two things of the seed's training set: how often each (state, action) occurs, and how its loss
    asks attention to move at the start. "population" knows nothing of it and describes an infinite one. Logit statistics
    are exact averages over all contexts. Loss and accuracies are measured, with the theory's attention and matrices, on
    the same `contexts` sequences at every epoch, drawn afresh from `default_rng([seed, 2])`; with contexts=0 they are left
    out. `params`, `draws`, `rng` and lists of seeds are as in `quenched`. The result carries initial and final weights.

    >>> th = column(Config.preset("smoke"), seed=0, contexts=0)
    >>> bool(th.A[-1] > 0.9)
    True
    """
    refuse(cfg, "column", weight_decay=True)
    contexts = whole_number("contexts", contexts, 0)
    return for_each_seed(lambda one: _one_seed(cfg, one, params, data, contexts), seed, draws, rng, params)


def sample_contexts(cfg: Config, permutations: NDArray[np.int64], n: int, rng: np.random.Generator) -> Split:
    """Draw n fresh sequences of uniform actions from uniform first states.

    >>> cfg = Config.preset("smoke")
    >>> len(sample_contexts(cfg, Start.of(cfg, 0).permutations, 3, np.random.default_rng([0, 2])))
    3
    """
    actions = rng.integers(0, cfg.d_g, (n, cfg.L))
    return Split(actions, chain(permutations, actions, rng.integers(0, cfg.N, n)))


def _one_seed(cfg: Config, seed: int, params: Params | None, data: Data, contexts: int) -> xr.Dataset:
    started, start = perf_counter(), Start.of(cfg, seed, params, data)
    theory, first = Column.of(cfg, start), start.params
    sample = sample_contexts(cfg, start.permutations, contexts, np.random.default_rng([seed, 2]))
    rows, last = [], theory.pack(first.w_q, first.w_k, first.m)
    for y in along(theory, last, alphas(cfg), **TOLERANCES):
        rows.append(_observed(cfg, theory, y, sample))
        last = y
    curves = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    known = {"seed": seed, "data": data, "contexts": contexts}
    run = labelled(cfg, "column", curves, **known, **TOLERANCES, wall_seconds=perf_counter() - started)
    return with_weights(run, first.astype(cfg.dtype), weights(theory, last).astype(cfg.dtype))


def weights(theory: Column, y: Array) -> Params:
    """The weights of a state vector.

    >>> cfg = Config.preset("smoke")
    >>> start = Start.of(cfg, 0, data="population")
    >>> theory = Column.of(cfg, start)
    >>> bool((weights(theory, theory.pack(start.params.w_q, start.params.w_k, start.params.m)).m == start.params.m).all())
    True
    """
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
