"""The house style: sizes of print, a colour-blind-safe palette, the look of every source, panels that stack in a column."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Width = Literal["full", "column"]
#: Inches: the text width of a page, and one column of two (also what a phone shows legibly).
WIDTHS: dict[str, float] = {"full": 7.0, "column": 3.4}

INK, GREY, FAINT = "#1a1a1a", "#8a8a8a", "#d4d4d4"
#: Okabe and Ito's palette, distinguishable with any colour vision.
BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE = "#0072b2", "#d55e00", "#009e73", "#e69f00", "#56b4e9", "#cc79a7"
#: A sequential map without a colour of the palette in it, for what is ordered (positions, times, heat maps).
SEQUENTIAL = "cividis"

STYLE: dict[Any, Any] = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 9.0,
    "legend.fontsize": 8.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 4.0,
    "axes.labelpad": 2.5,
    "xtick.direction": "in",
    "ytick.direction": "in",
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "xtick.minor.size": 1.6,
    "ytick.minor.size": 1.6,
    "lines.linewidth": 1.2,
    "lines.dash_capstyle": "butt",
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.columnspacing": 1.4,
    "legend.labelspacing": 0.35,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
    "image.cmap": SEQUENTIAL,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "cotflow",
}


@dataclass(frozen=True)
class Look:
    """How a source of curves is drawn: colour, dashes, rank (later ones on top), name in the legend."""

    color: str
    dashes: Any
    rank: int
    name: str

    @property
    def line(self) -> dict[str, Any]:
        """Keyword arguments for `Axes.plot`."""
        return {"color": self.color, "linestyle": self.dashes, "zorder": 2 + 0.1 * self.rank}


#: The look of every source by the name of its engine; theories are dashed, each in its own rhythm, so that they show where they
#: lie on each other.
LOOKS = {
    "simulation": Look(INK, "-", 0, "simulation"),
    "second simulation": Look(GREY, (0, (1, 1)), 1, "simulation"),
    "closure": Look(VERMILION, (0, (4.5, 2)), 2, "closure (tier 1)"),
    "closure, power 2": Look(ORANGE, (0, (2, 1)), 2, "closure, $A^2(1-A)^2$"),
    "quenched": Look(BLUE, (0, (5, 1.5, 1, 1.5)), 3, "quenched (tier 2)"),
    "column": Look(GREEN, (0, (1.5, 1.2)), 4, "columns (tier 3)"),
    "quenched, population": Look(SKY, (0, (5, 1.5, 1, 1.5)), 3, "tier 2, infinite data"),
    "column, population": Look(PURPLE, (0, (1.5, 1.2)), 4, "tier 3, infinite data"),
    "early": Look(PURPLE, (0, (1, 1.2)), 5, "early regime"),
    "onset": Look(BLUE, (0, (1, 1.2)), 5, "onset of attention"),
}

P = ParamSpec("P")


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Run a figure function under the house style, leaving the caller's settings as they are."""

    @functools.wraps(draw)
    def inside(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with rc_context(STYLE):
            return draw(*args, **kwargs)

    return inside


def page(panels: int, width: Width = "full", per_row: int = 3, height: float = 1.75) -> tuple[Figure, list[Axes]]:
    """A figure of `panels` equal panels: rows of `per_row` at full width, one below the other in a column.

    A single panel is a column wide always. `height` is that of a panel with its labels, in inches.
    """
    if width not in WIDTHS:
        raise ValueError(f"width = {width!r} is not allowed; allowed: {', '.join(WIDTHS)}")
    columns = min(panels, per_row) if width == "full" else 1
    rows = -(-panels // columns)
    inches = WIDTHS["column"] if panels == 1 else WIDTHS[width]
    figure = Figure(figsize=(inches, height * rows + 0.35), layout="constrained")
    grid = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    for spare in grid[panels:]:
        spare.remove()
    return figure, list(grid[:panels])


def letter(axes: list[Axes], titles: list[str]) -> None:
    """Letter the panels (a), (b), ... with their titles."""
    for i, (ax, title) in enumerate(zip(axes, titles, strict=True)):
        ax.set_title(f"({chr(ord('a') + i)})  {title}" if len(axes) > 1 else title)


def time_axis(ax: Axes, last: float) -> None:
    """The horizontal axis of training time."""
    ax.set_xlim(0, last or 1.0)
    ax.set_xlabel(r"training time $\alpha$")


def legend_above(figure: Figure, axes: list[Axes]) -> None:
    """One legend for all panels, above them, in as many columns as there is room for."""
    entries: dict[str, Any] = {}
    for ax in axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    if entries:
        letters = max(len(re.sub(r"\\[A-Za-z]+", "x", re.sub(r"[${}]", "", name))) for name in entries)
        room = int(figure.get_figwidth() / (0.045 * letters + 0.5))
        figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=max(1, min(len(entries), room)))
