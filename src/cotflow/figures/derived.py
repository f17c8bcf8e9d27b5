"""What follows from measured curves by a formula of the theory: the mean-field loss, Gaussian accuracies, moments of crossing."""

from __future__ import annotations

import numpy as np
import xarray as xr

from ..theory.meanfield import logit_margin, mean_field_loss
from ..theory.rollout import crossing, gaussian_rollout
from ..trajectory import config_of
from .sources import mean_and_spread, values


def mean_field_loss_of(run: xr.Dataset) -> xr.Dataset:
    """The mean-field loss of a run's own A, R, S and zeta, seed by seed; its variable is `loss`."""
    cfg = config_of(run)
    margin = logit_margin(run.A, run.R, run.S, cfg.N, cfg.d_g, run.zeta)
    return run[["A"]].assign(loss=(margin.dims, mean_field_loss(margin.values, cfg.N)))


def gaussian_accuracies(run: xr.Dataset, constant: bool = False, split: str = "train") -> dict[str, np.ndarray]:
    """Next-token and rollout accuracy (epoch,) by the paper's formula from logit statistics averaged over seeds.

    `constant` holds the variances at their initial values.
    """
    cfg = config_of(run)
    mu_k, var_k, mu_o, var_o = (mean_and_spread(values(run, name, split))[0] for name in ("mu_k", "var_k", "mu_o", "var_o"))
    if constant:
        var_k, var_o = var_k[0], var_o[0]
    next_token, rollout = gaussian_rollout(mu_k, var_k, mu_o, var_o, cfg.N, cfg.L)
    return {"next_token_accuracy": next_token, "rollout_accuracy": rollout}


def crossings(data: xr.Dataset, name: str, level: float = 0.5, split: str = "test") -> np.ndarray:
    """The training time at which each seed's curve first reaches a level, NaN where it does not; one entry a seed."""
    curves = np.atleast_2d(values(data, name, split).values)
    return np.array([crossing(data.alpha.values, curve, level) for curve in curves])
