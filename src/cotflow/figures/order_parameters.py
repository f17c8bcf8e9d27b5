"""How do attention and logic align with the teacher? A, R and S over training (the paper's Figures 2 and 7)."""

from __future__ import annotations

import xarray as xr
from matplotlib.figure import Figure

from .sources import last_alpha, overlay
from .style import Width, legend_above, letter, page, styled, time_axis
from .words import close

TITLES = {"A": "attention $A$", "R": "own overlap $R$", "S": "other overlap $S$"}


@styled
def order_parameters(*curves: xr.Dataset, width: Width = "full") -> Figure:
    """A, R and S of any simulations and theories over training time."""
    figure, axes = page(3, width)
    for ax, name in zip(axes, TITLES, strict=True):
        overlay(ax, curves, name)
        time_axis(ax, last_alpha(curves))
        ax.set_ylabel(f"${name}$")
    axes[0].set_ylim(0, 1.02)
    letter(axes, list(TITLES.values()))
    legend_above(figure, axes)
    return figure


def caption(*curves: xr.Dataset) -> str:
    """What is seen."""
    return (
        "Order parameters over training time: (a) A, the attention on the correct action, (b) R, the overlap of the learned "
        f"matrices with their own teacher matrices, (c) S, with the other ones (note the scale). {close(*curves)}"
    )
