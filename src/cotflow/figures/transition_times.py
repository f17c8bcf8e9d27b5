"""How do lock-in and rollout transition move with the hyperparameters? Times over the points of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from ..trajectory import config_of
from .derived import crossings
from .sources import look, seed_numbers, simulations, tier
from .style import Width, legend_above, letter, page, styled
from .words import count, in_words, left_out

#: What is timed, and its marker.
EVENTS = {"A": ("o", "$A$ = 1/2"), "rollout_accuracy": ("^", "rollout = 1/2")}
_BARS = {"linewidth": 0.9, "markersize": 4, "elinewidth": 0.7, "capsize": 1.5}
_NAMES = {"N": "$N$", "L": "$L$", "d_g": "$d_g$", "d_h": "$d_h$", "lr": r"learning rate $\eta$"}
_FOLLOWERS = ("batch_size", "n_test_seq", "n_eval_seq", "train_epochs", "eval_every")


@styled
def transition_times(*curves: xr.Dataset, width: Width = "full") -> Figure:
    """Training times at which A and rollout accuracy reach 1/2, over every hyperparameter that varies between the sources."""
    fields = varied(curves)
    if not fields:
        raise ValueError("the figure of transition times needs trajectories of at least two configurations")
    figure, axes = page(len(fields), width, per_row=2 if len(fields) in (2, 4) else 3, height=2.1)
    for ax, field in zip(axes, fields, strict=True):
        for how in sorted({look(data) for data in curves}, key=lambda each: each.rank):
            for name, (marker, event) in EVENTS.items():
                same = [data for data in along(curves, field, fields[field]) if look(data) == how and name in data]
                _lines(ax, field, [field, *fields[field]], same, name, marker, f"{event}, {how.name}")
        _frame(ax, field, curves)
    letter(axes, [f"over {' = '.join(_NAMES.get(each, each) for each in (field, *fields[field]))}" for field in fields])
    legend_above(figure, axes)
    return figure


def varied(curves: Sequence[xr.Dataset]) -> dict[str, list[str]]:
    """Fields that differ between the sources, each with those that vary in step with it; mere followers are left out."""
    configs = [config_of(data).model_dump() for data in curves]
    found: dict[str, list[str]] = {}
    groupings: dict[tuple[int, ...], str] = {}
    for field in configs[0]:
        values = [str(each[field]) for each in configs]
        if field in _FOLLOWERS or len(set(values)) == 1:
            continue
        first = groupings.setdefault(tuple(values.index(value) for value in values), field)
        if first == field:
            found[field] = []
        else:
            found[first].append(field)
    return found


def along(curves: Sequence[xr.Dataset], field: str, tied: Sequence[str]) -> list[xr.Dataset]:
    """Sources of the sets, alike but for `field` and those `tied` to it, in which that field varies."""
    sets: dict[str, list[xr.Dataset]] = {}
    for data in curves:
        sets.setdefault(_rest(data, (field, *tied)), []).append(data)
    found = [data for same in sets.values() if len({getattr(config_of(each), field) for each in same}) > 1 for data in same]
    return found or list(curves)  # no two differ in this alone: lone points of all


def _rest(data: xr.Dataset, axis: Sequence[str]) -> str:
    """A configuration without the fields of an axis and those that merely follow."""
    return str({key: value for key, value in config_of(data).model_dump().items() if key not in (*axis, *_FOLLOWERS)})


def _lines(ax: Axes, field: str, axis: list[str], same: list[xr.Dataset], name: str, marker: str, label: str) -> None:
    """A line through each set of sources that differ along this axis alone."""
    groups: dict[str, list[tuple[Any, float, float]]] = {}
    for data in same:
        times = crossings(data, name)
        times = times[np.isfinite(times)]
        if len(times):
            spread = float(times.std(ddof=1)) if len(times) > 1 else 0.0
            groups.setdefault(_rest(data, axis), []).append((getattr(config_of(data), field), float(times.mean()), spread))
    for points in groups.values():
        x, y, spread = zip(*sorted(points, key=lambda point: point[0]), strict=True)
        how: dict[str, Any] = {**look(same[0]).line, **_BARS, "marker": marker}
        if tier(same[0]) is not None:
            how["markerfacecolor"] = "none"
        ax.errorbar(x, y, spread, label=label, **how)


def _frame(ax: Axes, field: str, curves: tuple[xr.Dataset, ...]) -> None:
    values = sorted({getattr(config_of(data), field) for data in curves}, key=str)
    ax.set_xlabel(_NAMES.get(field, field))
    if all(isinstance(value, int) for value in values):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if all(isinstance(value, int | float) and value > 0 for value in values) and max(values) / min(values) > 3:
        ax.set_xscale("log")
        ax.set_xticks(sorted(values), [f"{value:g}" for value in sorted(values)], minor=False)
        ax.set_xticks([], minor=True)
    ax.set_ylabel(r"training time $\alpha$")
    low, high = ax.dataLim.intervaly
    if 0 < low < high / 5:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        ax.yaxis.set_minor_formatter(NullFormatter())
    else:
        ax.set_ylim(bottom=0)


def caption(*curves: xr.Dataset) -> str:
    """What is seen."""
    panels = [along(curves, field, tied) for field, tied in varied(curves).items()]
    runs = [run for run in simulations(curves) if any(run is data for panel in panels for data in panel)]
    counts = sorted({len(seed_numbers(run)) for run in runs})
    never = {name: sum(int(np.isnan(crossings(run, name)).sum()) for run in runs) for name in EVENTS}
    lost = left_out(never["A"], "simulated run", "A = 1/2")
    lost += left_out(never["rollout_accuracy"], "simulated run", "rollout accuracy 1/2")
    seeds = count(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds" if counts else "no seeds"
    return (
        "Training time α at which A and final rollout accuracy (test sequences) reach 1/2, over "
        f"{in_words(list(varied(curves)))}; mean ± one standard deviation over {seeds} a point, {len(runs)} simulated "
        f"points, theories dashed with open symbols.{lost}"
    )
