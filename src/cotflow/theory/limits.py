"""What do the closure's equations say before their non-linear terms matter?"""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.special import expit, logit

from ..config import Config
from .border import alphas, labelled, refuse
from .closure import Closure


def early(cfg: Config) -> xr.Dataset:
    """The early regime: A = A_0 = 1/L, R and S linear in alpha (Appendix G, Eq. 78), as a trajectory.

    R = eta (N-1)/N (A_0 + (1 - A_0)/d_g) alpha and S = eta (N-1)/N (1 - A_0)/d_g alpha; S = 0 for a single action.

    >>> th = early(Config.preset("main"))
    >>> bool(np.isclose(th.R[1] / th.S[1], (1 / 10 + 0.9 / 32) / (0.9 / 32)))
    True
    """
    refuse(cfg, "early")
    alpha, A0, rate = alphas(cfg), 1 / cfg.L, cfg.lr * (cfg.N - 1) / cfg.N
    curves = {
        "A": np.full_like(alpha, A0),
        "R": rate * (A0 + (1 - A0) / cfg.d_g) * alpha,
        "S": rate * (1 - A0) / cfg.d_g * alpha if cfg.d_g > 1 else np.zeros_like(alpha),
    }
    if cfg.freeze == "logic":
        curves["R"] = curves["S"] = np.zeros_like(alpha)
    return labelled(cfg, "early", curves)


def onset_time(cfg: Config) -> float:
    """The time scale sqrt(2 / c_omega) / eta on which attention leaves its plateau.

    >>> round(onset_time(Config.preset("main")), 3)
    1.872
    """
    return float(np.sqrt(2 / Closure.of(cfg).c_omega) / cfg.lr)


def onset(cfg: Config, *, leading: bool = True) -> xr.Dataset:
    """The onset of attention learning, A and R - S (as R, with S the early one), as a trajectory (Appendix H, Eqs. 79 to 81).

    With R - S = eta (N-1)/N alpha / L the equation for A gives A = (1/L) exp(c_omega eta^2 alpha^2 / 2) to leading order
    in 1/L; it is NaN where it exceeds 1. `leading=False` keeps all factors: logit(A) then grows from logit(1/L) by
    (d_g-1)/d_g (N-1)/N c_omega eta^2 alpha^2 / 2.

    >>> th = onset(Config.preset("main"))
    >>> round(float(np.interp(onset_time(Config.preset("main")), th.alpha, th.A)) * 10 / np.e, 2)
    1.0
    """
    refuse(cfg, "onset", one_step=False)
    alpha = alphas(cfg)
    still = cfg.freeze != "none" or cfg.d_g == 1  # a single action leaves nothing to retrieve
    growth = 0.0 if still else Closure.of(cfg).c_omega * (cfg.lr * alpha) ** 2 / 2
    if leading:
        exponent = growth - np.log(cfg.L)
        A = np.where(exponent > 0, np.nan, np.exp(np.minimum(exponent, 0.0)))
    else:
        A = expit(logit(1 / cfg.L) + (cfg.d_g - 1) / cfg.d_g * (cfg.N - 1) / cfg.N * growth)
    linear = early(cfg)
    return labelled(cfg, "onset", {"A": np.broadcast_to(A, alpha.shape), "R": linear.R.values, "S": linear.S.values})
