"""Do the measured logit variances explain the accuracies? (The paper's Figures 6 and 9.)"""

from __future__ import annotations

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .derived import gaussian_accuracies
from .sources import draw, last_alpha, look, mean_and_spread, name_of, settled, simulation, tier, values
from .style import BLUE, INK, ORANGE, VERMILION, Width, legend_above, letter, page, styled, time_axis
from .words import close


@styled
def logit_variances(*curves: xr.Dataset, width: Width = "full") -> Figure:
    """Variances of correct and other logits, and the accuracies that the Gaussian formula makes of them."""
    run = simulation(curves, "the figure of logit variances")
    figure, axes = page(3, width)
    _variances(axes[0], [data for data in curves if "var_k" in data and tier(data) != "closure"])
    for ax, name in zip(axes[1:], ("next_token_accuracy", "rollout_accuracy"), strict=True):
        draw(ax, run, name)
        for constant, color, dashes, label in (
            (False, BLUE, (0, (5, 1.5, 1, 1.5)), "formula, measured variances"),
            (True, VERMILION, (0, (4.5, 2)), "formula, initial variances"),
        ):
            ax.plot(run.alpha, gaussian_accuracies(run, constant)[name], color=color, linestyle=dashes, label=label, zorder=3)
        ax.set_ylim(0, 1.04)
        ax.set_ylabel("accuracy")
        time_axis(ax, settled([run], "next_token_accuracy", "rollout_accuracy"))
    time_axis(axes[0], last_alpha([run]))
    letter(axes, ["logit variances", "next token", "final rollout"])
    legend_above(figure, [*axes[1:], axes[0]])
    return figure


def _variances(ax: Axes, curves: list[xr.Dataset]) -> None:
    """Both variances: measured ones in colour, named at their ends, predicted ones dotted over them."""
    for data in curves:
        measured = tier(data) is None
        for name, color, symbol in (("var_k", ORANGE, r"$\sigma_k^2$"), ("var_o", BLUE, r"$\sigma_{\bar k}^2$")):
            mean, spread = mean_and_spread(values(data, name, "train"))
            if not measured:
                ax.plot(data.alpha, mean, color=INK, linestyle=(0, (1.5, 1.2)), linewidth=0.8, zorder=3)
                continue
            ax.plot(data.alpha, mean, color=color)
            ax.annotate(symbol, (data.alpha[-1], mean[-1]), (0, 6), textcoords="offset points", ha="right")
            if spread is not None:
                ax.fill_between(data.alpha, mean - spread, mean + spread, color=color, alpha=0.2, linewidth=0)
        if not measured:
            ax.plot([], [], color=INK, linestyle=(0, (1.5, 1.2)), linewidth=0.8, label=f"{look(data).name}, panel (a)")
    ax.set_ylim(bottom=0)
    ax.set_ylabel("variance")


def caption(*curves: xr.Dataset) -> str:
    """What is seen."""
    run = simulation(curves, "the figure of logit variances")
    start = [float(mean_and_spread(values(run, name, "train"))[0][0]) for name in ("var_k", "var_o")]
    return (
        "(a) Variances of the correct logit, σ_k², and of the other logits, over training sequences and positions (initially "
        f"{start[0]:.4f} and {start[1]:.4f}). (b) Next-token and (c) final rollout accuracy of {name_of(run)}, beside the "
        "paper's formula for Gaussian logits with measured means, and variances either as measured or held at their initial "
        f"values. {close(*curves)}"
    )
