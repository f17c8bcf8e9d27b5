"""How much better are tiers 2 and 3 than the closure? Order parameters, and each theory's error."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from .order_parameters import TITLES
from .sources import last_alpha, look, overlay, seed_numbers, simulation, theories, values
from .style import FAINT, Width, legend_above, letter, page, styled, time_axis
from .words import close, thin


@styled
def tiers(*curves: xr.Dataset, width: Width = "full") -> Figure:
    """A, R and S by simulation and every theory, and below them theory minus simulation over the seeds that both have."""
    run = simulation(curves, "the figure of theory tiers")
    figure, axes = page(6, width)
    order = [0, 1, 2, 3, 4, 5] if width == "full" else [0, 2, 4, 1, 3, 5]  # in a column each error lies below its curve
    above, below = [axes[i] for i in order[:3]], [axes[i] for i in order[3:]]
    for upper, lower, name in zip(above, below, TITLES, strict=True):
        overlay(upper, curves, name)
        upper.set_ylabel(f"${name}$")
        lower.axhline(0, color=FAINT, linewidth=0.8, zorder=0)
        for theory in theories(curves):
            lower.plot(run.alpha, error(run, theory, name), **look(theory).line)
        lower.set_ylabel(rf"$\Delta {name}$")
    above[0].set_ylim(0, 1.02)
    for ax in axes:
        time_axis(ax, last_alpha([run]))
    titles = [*TITLES.values(), *(f"error of ${name}$" for name in TITLES)]
    letter(axes, titles if width == "full" else [titles[i] for i in (0, 3, 1, 4, 2, 5)])
    legend_above(figure, axes)
    return figure


def shared_seeds(run: xr.Dataset, theory: xr.Dataset) -> list[int]:
    """Seeds of the run that a theory is compared with: those that both have, all where the theory knows no seed."""
    mine, theirs = seed_numbers(run), seed_numbers(theory)
    return [seed for seed in mine if not theirs or seed in theirs]


def pair(run: xr.Dataset, theory: xr.Dataset, name: str, split: str = "test") -> tuple[np.ndarray, np.ndarray]:
    """A variable by simulation and by theory for their shared seeds, both (seeds, epoch); an unseeded theory is repeated."""
    shared = shared_seeds(run, theory)
    measured, predicted = values(run, name, split), values(theory, name, split)
    if "seed" in measured.dims:
        measured = measured.sel(seed=shared)
    if "seed" in predicted.dims:
        predicted = predicted.sel(seed=shared)
    left, right = np.broadcast_arrays(np.atleast_2d(measured.values), np.atleast_2d(predicted.values))
    return left, right


def error(run: xr.Dataset, theory: xr.Dataset, name: str, split: str = "test") -> np.ndarray:
    """Theory minus simulation (epoch,), means over the seeds that both have; NaN where they share none."""
    measured, predicted = pair(run, theory, name, split)
    return predicted.mean(axis=0) - measured.mean(axis=0) if len(measured) else np.full(run.sizes["epoch"], np.nan)


def caption(*curves: xr.Dataset) -> str:
    """What is seen."""
    return (
        "Upper row: A, R and S by simulation and by the theories. Lower row: theory minus simulation, both averaged over the "
        "seeds that both have. Tiers 2 and 3 start from each seed's own initial weights, and know its training set by a few "
        f"numbers.{thin(*curves)} {close(*curves)}"
    )
