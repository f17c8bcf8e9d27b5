"""How accurate are one step and the whole chain, against the Gaussian formula with constant variances? (Figures 3 and 8.)"""

from __future__ import annotations

import xarray as xr
from matplotlib.figure import Figure

from .sources import overlay, settled
from .style import Width, legend_above, letter, page, styled, time_axis
from .words import close, thin, variances

TITLES = {"next_token_accuracy": "next token", "rollout_accuracy": "final rollout"}


@styled
def accuracies(*curves: xr.Dataset, width: Width = "full") -> Figure:
    """Next-token and final rollout accuracy of any simulations and theories over training time."""
    figure, axes = page(2, width, per_row=2)
    for ax, name in zip(axes, TITLES, strict=True):
        overlay(ax, curves, name)
        time_axis(ax, settled(curves, *TITLES))
        ax.set_ylim(0, 1.04)
        ax.set_ylabel("accuracy")
    letter(axes, list(TITLES.values()))
    legend_above(figure, axes)
    return figure


def caption(*curves: xr.Dataset) -> str:
    """What is seen."""
    return (
        "(a) Teacher-forced accuracy of the next state and (b) accuracy of the last state of a rollout, as fractions of the test "
        f"sequences.{variances(*curves)}{thin(*curves)} {close(*curves)}"
    )
