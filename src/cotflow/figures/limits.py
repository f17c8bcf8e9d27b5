"""How far do the early regime and the onset carry? The closure's limits over the full curves."""

from __future__ import annotations

import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from .order_parameters import TITLES
from .sources import config, mean_and_spread, overlay, settled, values
from .style import Width, legend_above, letter, page, styled, time_axis
from .words import close


@styled
def limits(*curves: xr.Dataset, width: Width = "full") -> Figure:
    """A (logarithmic), R and S until attention has locked in, with the early regime and the onset where they are given."""
    figure, axes = page(3, width)
    end = settled([data for data in curves if data.attrs.get("engine") not in ("theory-early", "theory-onset")] or curves, "A")
    for ax, name in zip(axes, TITLES, strict=True):
        shown = [data for data in curves if not (name != "A" and data.attrs.get("engine") == "theory-onset")]
        overlay(ax, shown, name)
        time_axis(ax, end)
        ax.set_ylabel(f"${name}$")
        _frame(ax, curves, name, end)
    axes[0].set_yscale("log")
    axes[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes[0].yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes[0].yaxis.set_minor_formatter(NullFormatter())
    axes[0].set_ylim(0.5 / config(curves).L, 1.3)
    letter(axes, list(TITLES.values()))
    legend_above(figure, axes)
    return figure


def _frame(ax, curves: tuple[xr.Dataset, ...], name: str, end: float) -> None:  # type: ignore[no-untyped-def]
    """Let the full curves set the scale, not a limit that has left them."""
    full = [data for data in curves if data.attrs.get("engine") not in ("theory-early", "theory-onset")] or list(curves)
    tops = [mean_and_spread(values(data, name))[0][data.alpha.values <= end] for data in full]
    low, high = min(float(top.min()) for top in tops), max(float(top.max()) for top in tops)
    height = (high - low) or 1.0
    ax.set_ylim(low - 0.15 * height, high + 0.35 * height)


def caption(*curves: xr.Dataset) -> str:
    """What is seen."""
    return (
        "The closure's limits over the full curves: in the early regime A stays at 1/L while R and S grow linearly; at the "
        "onset of "
        "attention learning A grows as (1/L) exp(c_ω η² α²/2), here on a logarithmic scale. "
        f"{close(*curves)}"
    )
