"""The table at the end of a sweep: written whole, printed as far as the terminal is wide."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from ..tables import export, sweep_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: Columns of the printed table: head and form of those of `sweep_table`.
COLUMNS = {
    "seeds": ("seeds", ".0f"),
    "failed": ("failed", ".0f"),
    "A": ("A", ".4f"),
    "R": ("R", ".3f"),
    "loss": ("loss", ".3g"),
    "next_token_accuracy": ("next\ntoken", ".4f"),
    "rollout_accuracy": ("rollout", ".4f"),
    "rollout_alpha": ("alpha", ".2f"),
    "rollout_crossed": ("cross", ".2f"),
}
#: Those that a narrow terminal does without, the first one first.
DISPENSABLE = ("R", "loss", "next_token_accuracy", "rollout_crossed")


def summarise(out: Path) -> None:
    """Write the table of all points as CSV and NetCDF, and print it."""
    table = sweep_table(out)
    for name in ("summary.csv", "summary.nc"):
        export(table, out / name)
    print_table(table)
    print(f"all columns: {out / 'summary.csv'}, summary.nc")


def print_table(table: xr.Dataset, console: Console | None = None) -> None:
    """The most telling columns, a row a point; where they do not fit some are left out, and names are folded last of all."""
    from rich.console import Console

    console = console or Console()
    shown = [name for name in COLUMNS if name in table and (name != "failed" or table.failed.any())]
    if not console.is_terminal:  # a file has room
        console.width = max(console.width, _width(console, table, shown))
    for name in DISPENSABLE:
        if name in shown and _width(console, table, shown) > console.width:
            shown.remove(name)
    console.print(_drawn(table, shown))
    if "rollout_alpha" in shown:
        cross = "; cross: part of seeds that do" if "rollout_crossed" in shown else ""
        console.print(f"alpha: median time at which rollout crosses 1/2{cross}", highlight=False)


def _width(console: Console, table: xr.Dataset, names: Sequence[str]) -> int:
    """Columns of a terminal that a table takes if it may."""
    return console.measure(_drawn(table, names), options=console.options.update(width=10_000)).maximum


def _drawn(table: xr.Dataset, names: Sequence[str]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    drawn.add_column("point", overflow="fold", vertical="bottom")
    for name in names:
        drawn.add_column(COLUMNS[name][0], justify="right", no_wrap=True)
    for i, point in enumerate(table.point.values):
        numbers = {name: float(table[name].values[i]) for name in names}
        drawn.add_row(Text(str(point)), *("-" if np.isnan(x) else f"{x:{COLUMNS[name][1]}}" for name, x in numbers.items()))
    return drawn
