"""Does theory follow one seed? Single runs beside tiers 2 and 3, which start from the seed's own weights."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from .derived import crossings
from .sources import look, of_seed, seed_numbers, settled, simulation, theories, tier, values
from .style import INK, Width, legend_above, letter, page, styled, time_axis
from .words import close, in_words

PANELS = {"A": "attention $A$", "R": "own overlap $R$", "rollout_accuracy": "final rollout accuracy"}


@styled
def single_seeds(*curves: xr.Dataset, width: Width = "full") -> Figure:
    """Up to three seeds, among the earliest, the middle and the latest to lock in, each followed by every seeded theory."""
    run, followed = simulation(curves, "the figure of single seeds"), _seeded(curves)
    figure, axes = page(3, width)
    chosen = choose(run, followed)
    for ax, name in zip(axes, PANELS, strict=True):
        for seed in chosen:
            one = of_seed(run, seed)
            if one is None:
                continue
            ax.plot(one.alpha, values(one, name, "train"), color=INK, alpha=0.55, linewidth=1.8, label="simulation, single seeds")
            for theory in followed:
                theirs = of_seed(theory, seed)
                if theirs is not None and name in theirs:
                    ax.plot(theirs.alpha, theirs[name], **look(theory).line, label=look(theory).name)
        time_axis(ax, 2 * settled([run], "A") / 1.5 if name == "A" else settled([run], "rollout_accuracy"))
    for ax in (axes[0], axes[2]):
        ax.set_ylim(0, 1.04)
    axes[0].set_ylabel("$A$")
    axes[1].set_ylabel("$R$")
    axes[2].set_ylabel("accuracy")
    letter(axes, list(PANELS.values()))
    legend_above(figure, axes)
    return figure


def choose(run: xr.Dataset, followed: list[xr.Dataset]) -> list[int]:
    """The earliest, the middle and the latest seed to lock in (A = 1/2) of those that all theories follow."""
    numbers = seed_numbers(run)
    known = [seed for seed in numbers if all(of_seed(theory, seed) is not None for theory in followed)] or numbers
    times = crossings(run, "A")[[numbers.index(seed) for seed in known]]
    order = np.array(known)[np.argsort(times)]
    return sorted({int(order[0]), int(order[len(order) // 2]), int(order[-1])})


def _seeded(curves: tuple[xr.Dataset, ...]) -> list[xr.Dataset]:
    return [data for data in theories(curves) if tier(data) in ("quenched", "column")]


def caption(*curves: xr.Dataset) -> str:
    """What is seen."""
    run, followed = simulation(curves, "the figure of single seeds"), _seeded(curves)
    chosen = in_words([str(seed) for seed in choose(run, followed)])
    return (
        f"Single seeds ({chosen}: the earliest, the middle and the latest to reach A = 1/2) and the theories that start from "
        f"the same "
        "initial weights: (a) attention, (b) own overlap, (c) final rollout accuracy on training sequences, which tier 3 alone "
        f"predicts. {close(*curves)}"
    )
