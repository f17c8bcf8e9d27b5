"""Where curves come from: simulation or a tier of theory, one seed or many; their mean and spread, and how they are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ..config import Config
from ..trajectory import config_of
from .style import LOOKS, PURPLE, Look


def tier(data: xr.Dataset) -> str | None:
    """The tier of a theory, None for a simulation."""
    engine = str(data.attrs.get("engine", ""))
    return engine.removeprefix("theory-") if engine.startswith("theory-") else None


def look(data: xr.Dataset) -> Look:
    """The look of a source; variants of a tier have their own, and so has a theory that is known by its name alone."""
    name = tier(data)
    if name is None:
        return LOOKS["simulation"]
    if name == "closure" and data.attrs.get("power", 1) == 2:
        return LOOKS["closure, power 2"]
    if data.attrs.get("data") == "population":
        name = f"{name}, population"
    return LOOKS.get(name, Look(PURPLE, (0, (3, 1, 1, 1)), 6, name))


def seed_numbers(data: xr.Dataset) -> list[int]:
    """The seeds of a source; none where it knows no seed."""
    if "seed" in data.dims:
        return [int(seed) for seed in data.seed.values]
    return [int(data.attrs["seed"])] if "seed" in data.attrs else []


def simulations(curves: Sequence[xr.Dataset]) -> list[xr.Dataset]:
    """The simulations among some sources."""
    return [data for data in curves if tier(data) is None]


def theories(curves: Sequence[xr.Dataset]) -> list[xr.Dataset]:
    """The theories among some sources."""
    return [data for data in curves if tier(data) is not None]


def simulation(curves: Sequence[xr.Dataset], needs: str) -> xr.Dataset:
    """The first simulation; a figure that cannot be drawn without one says so."""
    found = simulations(curves)
    if not found:
        raise ValueError(f"{needs} needs a simulation among its curves; it was given theories only")
    return found[0]


def name_of(data: xr.Dataset) -> str:
    """The name of a source in a legend; a simulation's with its seeds."""
    seeds, known = seed_numbers(data), look(data).name
    if tier(data) is not None:
        return known
    known = {"steps": "every SGD step", "flow": "gradient flow"}.get(data.attrs.get("engine", ""), known)
    if not seeds:
        return known
    return f"{known}, {len(seeds)} seeds" if len(seeds) > 1 else f"{known}, seed {seeds[0]}"


def values(data: xr.Dataset, name: str, split: str = "test") -> xr.DataArray:
    """A variable of a source, at one split where it has several, with dimensions (seed,) epoch, ... in this order."""
    chosen = data[name]
    if "split" in chosen.dims:
        chosen = chosen.sel(split=split)
    return chosen.transpose("seed", "epoch", ...) if "seed" in chosen.dims else chosen


def of_seed(data: xr.Dataset, seed: int) -> xr.Dataset | None:
    """One seed of a source; all of it where it knows no seed, None where it lacks that one."""
    numbers = seed_numbers(data)
    if numbers and seed not in numbers:
        return None
    if "seed" not in data.dims:
        return data
    return data.sel(seed=seed, drop=True).assign_attrs(seed=seed)


def mean_and_spread(data: xr.DataArray) -> tuple[np.ndarray, np.ndarray | None]:
    """Mean over seeds and standard deviation of the sample of seeds; no spread for one seed."""
    if "seed" not in data.dims:
        return data.values, None
    if data.sizes["seed"] == 1:
        return data.values[0], None
    return data.mean("seed").values, data.std("seed", ddof=1).values


def draw(ax: Axes, data: xr.Dataset, name: str, split: str = "test", how: Look | None = None, **line: Any) -> bool:
    """Draw a variable of one source, mean and ± one standard deviation over seeds; False where the source lacks it.

    The spread is a shade for a simulation and a pair of thin lines for a theory.
    """
    if name not in data:
        return False
    how, alpha = how or look(data), data.alpha.values
    mean, spread = mean_and_spread(values(data, name, split))
    ax.plot(alpha, mean, **{**how.line, "label": name_of(data), **line})
    if spread is not None:
        if tier(data) is None:
            ax.fill_between(alpha, mean - spread, mean + spread, color=how.color, alpha=0.16, linewidth=0, zorder=1)
        else:  # edges alone: shades of several colours would mix
            for edge in (mean - spread, mean + spread):
                ax.plot(alpha, edge, **{**how.line, "linewidth": 0.6})
    return True


def overlay(ax: Axes, curves: Sequence[xr.Dataset], name: str, split: str = "test") -> None:
    """Draw a variable of every source that has it; simulations after the first are dotted."""
    first = simulations(curves)[:1]
    for data in sorted(curves, key=lambda each: look(each).rank):
        another = tier(data) is None and data is not first[0]
        draw(ax, data, name, split, LOOKS["second simulation"] if another else None)


def config(curves: Sequence[xr.Dataset]) -> Config:
    """The configuration of the first simulation, else of the first source."""
    if not curves:
        raise ValueError("a figure needs at least one trajectory")
    return config_of((simulations(curves) or list(curves))[0])


def settled(curves: Sequence[xr.Dataset], *names: str) -> float:
    """When little happens any more: half as long again as the slowest source takes for 99 % of its change, as training time."""
    times = [0.0]
    for data in curves:
        for name in (name for name in names if name in data):
            mean = mean_and_spread(values(data, name))[0]
            done = np.abs(mean - mean[-1]) <= 0.01 * np.ptp(mean)
            first = len(done) - int(np.argmin(done[::-1])) if not done.all() else 0
            times.append(float(data.alpha[min(first, len(done) - 1)]))
    last = last_alpha(curves)
    return min(1.5 * max(times), last) or last


def last_alpha(curves: Sequence[xr.Dataset]) -> float:
    """The end of the longest source."""
    return max(float(data.alpha[-1]) for data in curves)
