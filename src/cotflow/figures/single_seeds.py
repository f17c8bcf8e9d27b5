"""Does theory follow one seed? Single runs beside tiers 2 and 3, which start from the seed's own weights."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from .derived import crossings
from .sources import look, of_seed, seed_numbers, settled, simulation, theories, tier, values
from .style import INK, Width, legend_above, letter, page, styled, time_axis
from .words import close, in_words, left_out

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
    """The earliest, the middle and the latest seed to lock in (A = 1/2) of those that all theories follow.

    Seeds that do not lock in are chosen only where none does.
    """
    times = dict(zip(seed_numbers(run), crossings(run, "A"), strict=True))
    known = [seed for seed in times if all(of_seed(theory, seed) is not None for theory in followed)] or list(times)
    order = sorted((seed for seed in known if np.isfinite(times[seed])), key=lambda seed: times[seed]) or known
    return sorted({order[0], order[len(order) // 2], order[-1]})


def _seeded(curves: tuple[xr.Dataset, ...]) -> list[xr.Dataset]:
    return [data for data in theories(curves) if tier(data) in ("quenched", "column")]


def caption(*curves: xr.Dataset) -> str:
    """What is seen."""
    run, followed = simulation(curves, "the figure of single seeds"), _seeded(curves)
    chosen, numbers = choose(run, followed), seed_numbers(run)
    crosses = dict(zip(numbers, np.isfinite(crossings(run, "A")), strict=True))
    which = ": the earliest, the middle and the latest to reach A = 1/2" if len(chosen) == 3 and crosses[chosen[0]] else ""
    never = left_out(len(numbers) - sum(crosses.values()), "seed", "A = 1/2")
    return (
        f"Single seeds ({in_words([str(seed) for seed in chosen])}{which}) and the theories that start from the same "
        "initial weights: (a) attention, (b) own overlap, (c) final rollout accuracy on training sequences, which tier 3 alone "
        f"predicts.{never} {close(*curves, drawn='single runs of')}"
    )
