"""What of a theory's error is the finite training set? Errors of every tier against the number of training sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from ..config import Config
from ..trajectory import config_of
from .sources import look, seed_numbers, simulations, theories
from .style import Width, legend_above, letter, page, styled
from .tiers import pair, shared_seeds
from .words import count, in_words, setting

PANELS = {
    "A": r"$\max_\alpha |\Delta A|$",
    "R": r"$\max_\alpha |\Delta R|$",
    "next_token_accuracy": r"$\max_\alpha |\Delta\rho|$",
}
TITLES = ["attention", "own overlap", "next-token accuracy"]
_BARS: dict[str, Any] = {"marker": "o", "markersize": 3, "elinewidth": 0.7, "capsize": 1.5}
_SIZES = ("n_train_seq", "n_test_seq", "n_eval_seq", "batch_size")


@styled
def training_set_size(*curves: xr.Dataset, width: Width = "full") -> Figure:
    """Each theory's largest error over the whole run, mean and range over seeds, for simulations with different training sets."""
    runs = sorted(simulations(curves), key=lambda run: config_of(run).n_train_seq)
    if len(runs) < 2:
        raise ValueError("the figure of training-set sizes needs simulations with at least two values of n_train_seq")
    common = set.intersection(*(set(seed_numbers(run)) for run in runs))
    figure, axes = page(3, width)
    for ax, (name, symbol) in zip(axes, PANELS.items(), strict=True):
        for how in sorted({look(theory) for theory in theories(curves)}, key=lambda each: each.rank):
            same = [theory for theory in theories(curves) if look(theory) == how]
            found = [(config_of(run).n_train_seq, worst(run, theory, name, common)) for run in runs for theory in same]
            measured = sorted(((n, errors) for n, errors in found if len(errors)), key=lambda each: each[0])
            if not measured:
                continue
            mean = np.array([errors.mean() for _, errors in measured])
            ends = np.array([[errors.min(), errors.max()] for _, errors in measured]).T
            ax.errorbar([n for n, _ in measured], mean, np.abs(ends - mean), **how.line, label=how.name, **_BARS)
        sizes = sorted({config_of(run).n_train_seq for run in runs})
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(sizes, [_short(size) for size in sizes])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlabel("training sequences")
        ax.set_ylabel(symbol)
    letter(axes, TITLES)
    legend_above(figure, axes)
    return figure


def comparable(run: xr.Dataset, theory: xr.Dataset) -> bool:
    """Whether both have the same configuration, but for the sizes of data sets where the theory knows none."""
    allowed = ("n_test_seq", "n_eval_seq") if theory.attrs.get("data") == "training" else _SIZES
    return not set(config_of(run).difference(config_of(theory))) - set(allowed)


def worst(run: xr.Dataset, theory: xr.Dataset, name: str, among: set[int]) -> np.ndarray:
    """The largest |theory - simulation| over the run, one entry a shared seed; accuracies are those of training sequences."""
    if name not in theory or name not in run or not comparable(run, theory):
        return np.array([])
    kept = [seed in among for seed in shared_seeds(run, theory)]
    if not any(kept):
        return np.array([])
    measured, predicted = pair(run, theory, name, split="train")
    return np.abs(predicted - measured).max(axis=1)[kept]


def _short(size: int) -> str:
    return f"{size // 1024}Ki" if size % 1024 == 0 and size >= 1024 else str(size)


def caption(*curves: xr.Dataset) -> str:
    """What is seen."""
    runs = sorted(simulations(curves), key=lambda run: config_of(run).n_train_seq)
    sizes = in_words([f"{config_of(run).n_train_seq:,}" for run in runs])
    common = count(len(set.intersection(*(set(seed_numbers(run)) for run in runs))), "seed")
    cfg: Config = config_of(runs[-1])
    return (
        f"Largest error of each theory over a whole run, mean and range over the same {common}, for {sizes} training sequences "
        "(1Ki = 1,024). Tiers 2 and 3 know how a seed's training set asks attention to move at the start, and tier 3 how "
        "often each pair of state and action occurs in it; their variants for infinite data, and the closure, do not. An error "
        f"that falls is the finite training set, one that stays is the theory's own. Largest set: {setting(cfg)}"
    )
