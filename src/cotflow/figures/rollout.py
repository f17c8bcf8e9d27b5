"""When does a whole chain come out right? Final rollout accuracy over training (the paper's Figure 3)."""

from __future__ import annotations

import xarray as xr
from matplotlib.figure import Figure

from .sources import config, overlay, settled
from .style import FAINT, Width, legend_above, page, styled, time_axis
from .words import close, thin, variances


@styled
def rollout(*curves: xr.Dataset, width: Width = "full") -> Figure:
    """Accuracy of the last generated state of any simulations and theories over training time."""
    figure, (ax,) = page(1, width, height=2.3)
    cfg = config(curves)
    for level in (1 / cfg.N, 1.0):
        ax.axhline(level, color=FAINT, linewidth=0.6, zorder=0)
    overlay(ax, curves, "rollout_accuracy")
    time_axis(ax, settled(curves, "rollout_accuracy"))
    ax.set_ylim(0, 1.04)
    ax.set_ylabel("final rollout accuracy")
    legend_above(figure, [ax])
    return figure


def caption(*curves: xr.Dataset) -> str:
    """What is seen."""
    cfg = config(curves)
    return (
        f"Final rollout accuracy, the fraction of test sequences whose last of L = {cfg.L} generated states is right; thin lines "
        f"mark chance, 1/N, and certainty.{variances(*curves)}{thin(*curves)} {close(*curves)}"
    )
