"""What are the mean logits, and does the mean-field loss describe the loss? (The paper's Figures 4 and 10.)"""

from __future__ import annotations

import xarray as xr
from matplotlib.figure import Figure

from .derived import mean_field_loss_of
from .sources import draw, last_alpha, overlay, simulations
from .style import SKY, Width, legend_above, letter, page, styled, time_axis
from .words import close


@styled
def logits_and_loss(*curves: xr.Dataset, width: Width = "full") -> Figure:
    """Mean correct logit, mean of the other logits, and losses over training time."""
    figure, axes = page(3, width)
    for ax, name in zip(axes, ("mu_k", "mu_o", "loss"), strict=True):
        overlay(ax, curves, name, split="train")
        time_axis(ax, last_alpha(curves))
    for data in simulations(curves)[:1]:
        look = {"color": SKY, "linestyle": (0, (1, 1)), "linewidth": 1.6, "label": r"$\ell_{\mathrm{CE}}$ of measured $A, R, S$"}
        draw(axes[2], mean_field_loss_of(data), "loss", **look)
    axes[2].set_ylim(bottom=0)
    for ax, name in zip(axes, (r"$\mu_k$", r"$\mu_{\bar k}$", "cross-entropy (nats)"), strict=True):
        ax.set_ylabel(name)
    letter(axes, ["mean correct logit", "mean other logit", "loss"])
    legend_above(figure, axes)
    return figure


def caption(*curves: xr.Dataset) -> str:
    """What is seen."""
    measured = (
        " The mean-field loss ℓ_CE is that of the theories; the light dotted line evaluates it at the measured A, R, S and the "
        "seed's own ζ, without any dynamics of the theory."
        if simulations(curves)
        else ""
    )
    return (
        "(a) Mean correct logit, (b) mean of the other logits, (c) cross-entropy of the next state over the training sequences, "
        f"in nats.{measured} {close(*curves)}"
    )
