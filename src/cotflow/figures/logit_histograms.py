"""How Gaussian are the logits, and when do they cease to be? Their distribution at the snapshots of a run."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import kurtosis, norm, skew

from ..config import Config
from ..params import Params
from ..task import Split, Task
from ..theory.assumptions import logits
from ..theory.column import sample_contexts
from ..trajectory import config_of
from .sources import seed_numbers, simulation
from .style import BLUE, INK, ORANGE, Width, legend_above, letter, page, styled
from .words import setting

CONTEXTS = 2048


@styled
def logit_histograms(*curves: xr.Dataset, width: Width = "full") -> Figure:
    """Histograms of correct and other logits of one run at every epoch whose weights it carries, with Gaussians beside."""
    run = _one(curves)
    cfg, epochs = config_of(run), saved_epochs(run)
    figure, axes = page(len(epochs), width, height=1.6)
    context = sequences_for(cfg, seed_numbers(run)[0])
    for ax, epoch in zip(axes, epochs, strict=True):
        correct, others = split_logits(cfg, Params.of(run, epoch), context)
        for sample, color, name in ((others, BLUE, "other logits"), (correct, ORANGE, "correct logit")):
            _histogram(ax, sample, color, name)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_xlabel("logit")
    letter(axes, [rf"$\alpha = {epoch * cfg.alpha_per_epoch:.2f}$" for epoch in epochs])
    legend_above(figure, axes[:1])
    return figure


def _histogram(ax: Axes, sample: np.ndarray, color: str, name: str) -> None:
    low, high = float(sample.min()), float(sample.max())
    limits = (low, max(high, low + 1e-6))
    heights, _, _ = ax.hist(sample, bins=60, range=limits, density=True, color=color, alpha=0.45, label=name)
    mean, spread = float(sample.mean()), float(sample.std())
    if spread > 0:
        grid = np.linspace(low, high, 200)
        same = "Gaussians of the same mean and variance" if name == "correct logit" else None
        ax.plot(grid, norm.pdf(grid, mean, spread), color=INK, linewidth=0.8, linestyle=(0, (3, 1.5)), label=same)
        side, place = ("left", 0.0) if name == "other logits" else ("right", 1.0)
        text = f"skew {skew(sample):+.2f}\nkurt. {kurtosis(sample):+.2f}".replace("-", "−")
        ax.set_ylim(top=max(ax.get_ylim()[1], 1.45 * float(norm.pdf(0, 0, spread)), 1.3 * float(np.max(heights))))
        ax.text(place, 1.0, text, transform=ax.transAxes, fontsize=7, ha=side, va="top", linespacing=1.05)


def split_logits(cfg: Config, params: Params, context: Split) -> tuple[np.ndarray, np.ndarray]:
    """All correct logits, and all others, of some sequences."""
    z = logits(cfg, params, context)
    right = np.arange(cfg.N) == context.targets[:, :, None]
    return z[right], z[~right]


def saved_epochs(run: xr.Dataset) -> list[int]:
    """Epochs whose weights a record carries: the first, its snapshots, the last."""
    between = run.snapshot.values.tolist() if "snapshot" in run.coords else []
    return sorted({int(run.epoch[0]), *map(int, between), int(run.epoch[-1])})


def sequences_for(cfg: Config, seed: int) -> Split:
    """Fresh sequences of the seed's own permutations."""
    return sample_contexts(cfg, Task(cfg, seed).permutations, CONTEXTS, np.random.default_rng([seed, 2]))


def _one(curves: tuple[xr.Dataset, ...]) -> xr.Dataset:
    run = simulation(curves, "the figure of logit histograms")
    if "seed" in run.dims:
        run = run.isel(seed=0).assign_attrs(seed=int(run.seed[0]))
    if "initial_m" not in run:
        raise ValueError("the figure of logit histograms needs a record with weights (load it with weights=True)")
    return run


def caption(*curves: xr.Dataset) -> str:
    """What is seen."""
    run = _one(curves)
    return (
        f"Distribution of the correct logit and of the other logits of seed {run.attrs['seed']}, over {CONTEXTS:,} fresh "
        "sequences and all steps, at the start, while attention locks in, in the rollout transition and at the end; each density "
        "has its own scale. Skewness and excess kurtosis, zero for a Gaussian, stand in each panel: other logits left, correct "
        f"logit right. {setting(config_of(run))}"
    )
