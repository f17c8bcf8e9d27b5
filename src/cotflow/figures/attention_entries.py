"""Which entries of attention move, and when? Every pi[t, j] over training (the paper's Figure 5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure

from .sources import last_alpha, mean_and_spread, settled, simulations, values
from .style import FAINT, GREY, INK, SEQUENTIAL, VERMILION, WIDTHS, Width, styled, time_axis
from .words import close


@styled
def attention_entries(*curves: xr.Dataset, width: Width = "full") -> Figure:
    """All entries of one source's attention over training time, and the matrix at four moments.

    The first simulation is shown, else the first theory that has an attention matrix.
    """
    data = _shown(curves)
    pi = mean_and_spread(values(data, "attention"))[0]
    alpha, end = data.alpha.values, settled([data], "A")
    moments = _moments(alpha, np.trace(pi, axis1=1, axis2=2) / pi.shape[1])
    figure = Figure(figsize=(WIDTHS[width], 2.5 if width == "full" else 5.4), layout="constrained")
    side_by_side = {"nrows": 1, "ncols": 2, "width_ratios": [1.5, 1]}
    stacked = {"nrows": 2, "ncols": 1, "height_ratios": [1, 1.1]}
    left, right = figure.subfigures(**(side_by_side if width == "full" else stacked), squeeze=False).ravel()
    ax = left.subplots()
    _entries(ax, alpha, pi)
    time_axis(ax, min(end, last_alpha([data])))
    for k in moments:
        ax.axvline(alpha[k], color=GREY, linewidth=0.5, linestyle=(0, (2, 2)), zorder=0)
    _matrices(right, [(float(alpha[k]), pi[k]) for k in moments])
    return figure


def _shown(curves: Sequence[xr.Dataset]) -> xr.Dataset:
    found = [data for data in (*simulations(curves), *curves) if "attention" in data]
    if not found:
        raise ValueError("the figure of attention entries needs a simulation, or a theory of tier 2 or 3")
    return found[0]


def _matrices(part: SubFigure, moments: list[tuple[float, np.ndarray]]) -> None:
    """The attention matrix at four moments."""
    grid = part.subplots(2, 2, sharex=True, sharey=True)
    for ax, (alpha, pi) in zip(grid.ravel(), moments, strict=True):
        ax.imshow(pi, vmin=0, vmax=1, cmap=SEQUENTIAL, interpolation="none")
        ax.set_title(rf"$\alpha = {alpha:.2f}$", loc="center", fontsize=8)
        ax.set_xticks([0, len(pi) - 1], ["1", str(len(pi))])
        ax.set_yticks([0, len(pi) - 1], ["1", str(len(pi))])
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
    part.colorbar(ScalarMappable(Normalize(0, 1), SEQUENTIAL), ax=grid, fraction=0.05, aspect=25)
    part.supxlabel("action $j$", fontsize=9)
    part.supylabel("step $t$", fontsize=9)
    part.suptitle("(b)  the matrix", x=0.02, ha="left", fontsize=9)


def _entries(ax: Axes, alpha: np.ndarray, pi: np.ndarray) -> None:
    """Diagonal entries in colour, by step; the others in grey; the mean of the diagonal, A, on top."""
    L = pi.shape[1]
    ax.plot(alpha, pi[:, ~np.eye(L, dtype=bool)], color=FAINT, linewidth=0.4, zorder=1)
    ax.plot([], [], color=FAINT, linewidth=1.5, label=r"$\pi_{tj},\ j \neq t$")
    colors = colormaps[SEQUENTIAL](np.linspace(0.15, 0.95, L))
    for t in range(L):
        name = rf"$\pi_{{tt}},\ t = {t + 1}$" if t in (0, L - 1) else None
        ax.plot(alpha, pi[:, t, t], color=colors[t], linewidth=0.9, zorder=2, label=name)
    ax.plot(alpha, np.trace(pi, axis1=1, axis2=2) / L, color=VERMILION, linestyle=(0, (3, 1.5)), zorder=3, label="$A$")
    ax.set_title("(a)  entries over training")
    ax.set_ylim(0, 1.02)
    ax.set_ylabel(r"$\pi_{tj}$", color=INK)
    ax.legend(loc="center right")


def _moments(alpha: np.ndarray, A: np.ndarray) -> list[int]:
    """Four moments: the start, A a quarter and three quarters on its way, the end of the way (99 %)."""
    way = (A - A[0]) / (A.max() - A[0]) if A.max() > A[0] else np.linspace(0, 1, len(A))
    return [0, *(int(np.argmax(way >= level)) for level in (0.25, 0.75, 0.99))]


def caption(*curves: xr.Dataset) -> str:
    """What is seen."""
    data = _shown(curves)
    return (
        "(a) Every entry of the attention matrix over training time, averaged over seeds: the diagonal, step t to action t, in "
        "colour from the first step (dark) to the last (light), its mean A dashed, all other entries in grey; dashed "
        "verticals mark "
        f"the moments of (b), the matrix itself, rows summing to one. {close(data, drawn='mean')}"
    )
