"""Tier 1, the paper's closure: three coupled equations for A, R and S (Eqs. 15a-c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from ..attention import frequencies
from ..config import LOOKS, Config
from ..trajectory import config_of
from .border import alphas, labelled, number, refuse
from .integrate import along
from .meanfield import logit_margin, mean_correct_logit, mean_field_loss, mean_other_logit, miss
from .retrieval import c_omega, initial_concentration
from .rollout import gaussian_rollout
from .updates import overlap_rates

Array = NDArray[np.float64]
TOLERANCES = {"rtol": 1e-10, "atol": 1e-12}
#: What two configurations of one learning curve may differ in: the sizes of data sets, and when it is looked at.
_IMMATERIAL = LOOKS | {"n_train_seq", "batch_size"}


@dataclass(frozen=True)
class Closure:
    """The equations of motion in the variables (logit A, R, S).

    d logit(A)/dalpha = eta miss N/(N-1) (d_g-1)/d_g L c_omega (R - S) has no factor A (1 - A), so A stays inside (0, 1).
    `power` = 2 closes |grad A|^2 by A^2 (1-A)^2 instead, with the same value at A = 1/L: the uniform ansatz for
    attention, which rises too steeply. `tau` is the overlap of different teacher matrices, 1/N in the paper's limit.

    >>> theory = Closure(N=4, L=3, d_g=4, eta=1.0, c_omega=1.0)
    >>> theory(0.0, np.array([logit(1 / 3), 0.0, 0.0])).round(6)
    array([0.   , 0.375, 0.125])
    """

    N: int
    L: int
    d_g: int
    eta: float
    c_omega: float
    zeta: float = 0.0
    tau: float | None = None
    power: Literal[1, 2] = 1
    frozen: str = "none"

    @classmethod
    def of(cls, cfg: Config, **options: Any) -> Closure:
        """The closure of a configuration, c_omega averaged over its initial weights."""
        c = c_omega(cfg.N, cfg.L, cfg.d_g, cfg.d_h, frequencies(cfg), cfg.init_variance)
        return cls(cfg.N, cfg.L, cfg.d_g, cfg.lr, c, frozen=cfg.freeze, **options)

    def __call__(self, alpha: float, y: Array) -> Array:
        """dy/dalpha for y = (logit A, R, S)."""
        N, L, d_g = self.N, self.L, self.d_g
        A, R, S = expit(y[0]), y[1], y[2]
        tau = 1 / N if self.tau is None else self.tau
        rate = self.eta * miss(logit_margin(A, R, S, N, d_g, self.zeta), N)
        to_R, to_S = overlap_rates(A, N, d_g, tau)
        speed = L if self.power == 1 else L**3 / (L - 1) * expit(y[0]) * expit(-y[0])
        to_A = N / (N - 1) * (d_g - 1) / d_g * self.c_omega * speed * (R - S)
        moving = np.array([self.frozen != "attention", self.frozen != "logic", self.frozen != "logic"])
        return rate * np.where(moving, [to_A, to_R, to_S], 0.0)

    def solve(self, grid: Array, A: float | None = None, R: float = 0.0, S: float = 0.0) -> tuple[Array, Array, Array]:
        """A, R, S along an increasing grid of alpha, from A(0) = 1/L, R(0) = S(0) = 0 unless given."""
        start = np.array([logit(1 / self.L if A is None else A), R, S])
        path = np.array(list(along(self, start, grid, **TOLERANCES)))
        return expit(path[:, 0]), path[:, 1], path[:, 2]


def initial_logit_variance(cfg: Config) -> float:
    """Variance of every logit at random initial weights, init_variance E sum_b o_b^2.

    E sum_b o_b^2 = q + (1 - q)/d_g with q = sum_j pi_tj^2 for small attention logits, hence for a small init_variance: q is
    right to second order in them, and never more than 1.

    >>> round(initial_logit_variance(Config.preset("main")), 3)
    0.044
    """
    q = initial_concentration(frequencies(cfg), cfg.L, cfg.init_variance)
    return cfg.init_variance * (q + (1 - q) / cfg.d_g)


def closure(
    cfg: Config,
    *,
    zeta: float = 0.0,
    tau: float | None = None,
    power: Literal[1, 2] = 1,
    variances: xr.Dataset | tuple[ArrayLike, ArrayLike] | None = None,
) -> xr.Dataset:
    """The paper's theory as a trajectory: A, R, S, mean logits, mean-field loss, Gaussian accuracies.

    `variances` of the correct and the other logits enter the accuracies alone: constant at their initial value by
    default, or a pair of numbers or curves, or a trajectory that has `var_k` and `var_o` (a simulation, or tier 3) of the
    same configuration, but for its data sets' sizes and when it is evaluated. `zeta` is any finite number, `tau` one with
    0 <= tau < 1.

    >>> th = closure(Config.preset("main"))
    >>> np.interp([1, 2, 3, 4], th.alpha, th.A).round(3)
    array([0.128, 0.288, 0.864, 1.   ])
    """
    refuse(cfg, "closure", one_step=False)
    if isinstance(power, bool) or power not in (1, 2):
        raise ValueError(f"power = {power!r} is not allowed; allowed: 1 (the paper's closure) or 2")
    zeta, tau = number("zeta", zeta), None if tau is None else number("tau", tau, 0, 1)
    started = perf_counter()
    theory = Closure.of(cfg, zeta=zeta, tau=tau, power=power)
    A, R, S = theory.solve(alphas(cfg))
    mu_k = mean_correct_logit(A, R, S, cfg.d_g)
    mu_o = mean_other_logit(mu_k, cfg.N, zeta)
    var_k, var_o = _variances(cfg, variances)
    next_token, rollout = gaussian_rollout(mu_k, var_k, mu_o, var_o, cfg.N, cfg.L)
    curves = {
        "A": A,
        "R": R,
        "S": S,
        "zeta": np.full_like(A, zeta),
        "loss": mean_field_loss(mu_k - mu_o, cfg.N),
        "next_token_accuracy": next_token,
        "rollout_accuracy": rollout,
        "mu_k": mu_k,
        "var_k": var_k,
        "mu_o": mu_o,
        "var_o": var_o,
    }
    options = {"tau": tau, "power": power if power != 1 else None, "c_omega": theory.c_omega}
    return labelled(cfg, "closure", curves, **options, **TOLERANCES, wall_seconds=perf_counter() - started)


def _variances(cfg: Config, given: Any) -> tuple[Array, Array]:
    """Both variances along the evaluation epochs."""
    epochs = np.asarray(cfg.eval_epochs)
    if given is None:
        given = (initial_logit_variance(cfg), initial_logit_variance(cfg))
    elif isinstance(given, xr.Dataset):
        given = _curves(cfg, given, epochs)
    elif not isinstance(given, Sequence | np.ndarray) or isinstance(given, str) or len(given) != 2:
        raise ValueError(
            f"variances = {given!r} is not allowed; allowed: a pair (var_k, var_o) of numbers or curves, or a trajectory"
        )
    return _checked("var_k", given[0], len(epochs)), _checked("var_o", given[1], len(epochs))


def _checked(name: str, values: Any, length: int) -> Array:
    try:
        values = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array(np.nan)
    if values.shape not in ((), (length,)) or not (values >= 0).all() or not np.isfinite(values).all():
        raise ValueError(
            f"variances: {name} has shape {values.shape}, least value {values.min(initial=np.inf):g}; "
            f"allowed: one number, or one for each of the {length} evaluations, finite and none negative"
        )
    return np.broadcast_to(values, (length,))


def _curves(cfg: Config, run: xr.Dataset, epochs: NDArray[np.int64]) -> tuple[Array, Array]:
    """Both variances of a trajectory of the same student at given epochs, averaged over seeds, of the train split."""
    mine, its = cfg.model_dump(exclude=_IMMATERIAL), config_of(run).model_dump(exclude=_IMMATERIAL)
    different = [f"{name} = {its[name]!r}" for name in mine if mine[name] != its[name]]
    if different:
        raise ValueError(f"variances: the trajectory has {', '.join(different)}; allowed: one of the same configuration")
    if run.epoch.values.max() < epochs[-1]:
        raise ValueError(f"variances: the trajectory ends at epoch {run.epoch.values.max()}; allowed: one up to {epochs[-1]}")
    return _curve(run, "var_k", epochs), _curve(run, "var_o", epochs)


def _curve(run: xr.Dataset, name: str, epochs: NDArray[np.int64]) -> Array:
    if name not in run:
        raise ValueError(f"variances: the trajectory has no variable {name}")
    values = run[name]
    values = values.sel(split="train") if "split" in values.dims else values
    values = values.mean("seed") if "seed" in values.dims else values
    return np.interp(epochs, run.epoch.values, values.values)
