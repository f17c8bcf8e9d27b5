"""Where is the rollout transition, by every theory and by simulation, on average and seed by seed?"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .derived import crossings, gaussian_accuracies
from .sources import look, overlay, seed_numbers, settled, simulation, theories
from .style import BLUE, GREY, INK, Width, legend_above, letter, page, styled, time_axis
from .tiers import shared_seeds
from .words import close, thin


@styled
def transition(*curves: xr.Dataset, width: Width = "full") -> Figure:
    """Final rollout accuracy by all theories, and each seed's moment of accuracy 1/2, predicted against measured."""
    run = simulation(curves, "the figure of the rollout transition")
    figure, (left, right) = page(2, width, per_row=2, height=2.3)
    overlay(left, curves, "rollout_accuracy", split="train")
    measured = gaussian_accuracies(run)["rollout_accuracy"]
    left.plot(run.alpha, measured, color=BLUE, linestyle=(0, (5, 1.5, 1, 1.5)), label="formula, measured variances", zorder=2.5)
    left.axhline(0.5, color=GREY, linewidth=0.5, linestyle=(0, (2, 2)), zorder=0)
    time_axis(left, settled(curves, "rollout_accuracy"))
    left.set_ylim(0, 1.04)
    left.set_ylabel("final rollout accuracy")
    _per_seed(right, run, [theory for theory in theories(curves) if "rollout_accuracy" in theory])
    letter([left, right], ["mean over seeds", r"moment of accuracy $1/2$, seed by seed"])
    legend_above(figure, [left])
    return figure


def _per_seed(ax: Axes, run: xr.Dataset, predicting: list[xr.Dataset]) -> None:
    numbers, measured = seed_numbers(run), crossings(run, "rollout_accuracy", split="train")
    every = [measured[np.isfinite(measured)]]
    for theory in predicting:
        shared = shared_seeds(run, theory)
        x = measured[[numbers.index(seed) for seed in shared]]
        y = crossings(theory, "rollout_accuracy")
        if seed_numbers(theory):
            y = y[[seed_numbers(theory).index(seed) for seed in shared]]
            ax.plot(x, y, "o", color=look(theory).color, markersize=3.5, markeredgewidth=0)
        elif np.isfinite(y[0]):
            ax.plot(x, np.full_like(x, y[0]), "|", color=look(theory).color, markersize=6)
        every.append(y[np.isfinite(y)])
    together = np.concatenate(every)
    low, high = (together.min() - 0.3, together.max() + 0.3) if len(together) else (0.0, 1.0)
    ax.plot([low, high], [low, high], color=INK, linewidth=0.6, zorder=0)
    ax.set_xlim(low, high)
    ax.set_ylim(low, high)
    ax.set_xlabel(r"simulated $\alpha_{1/2}$")
    ax.set_ylabel(r"predicted $\alpha_{1/2}$")


def caption(*curves: xr.Dataset) -> str:
    """What is seen."""
    return (
        "(a) Final rollout accuracy on training sequences by simulation, by the theories, and by the paper's formula with "
        "measured "
        "variances. (b) The training time α at which it reaches 1/2, predicted against simulated, one mark a seed; the line is "
        f"agreement. The closure knows no seed, so its marks lie on one level.{thin(*curves)} {close(*curves)}"
    )
