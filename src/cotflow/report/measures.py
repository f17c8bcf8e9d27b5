"""Numbers from trajectories: values at a time, times of crossing, the distance of theory from simulation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr

from ..figures.sources import seed_numbers
from ..theory.rollout import crossing


@dataclass(frozen=True)
class Measured:
    """A number with its spread (a standard deviation over seeds), its unit, and how it came about."""

    value: float
    spread: float | None = None
    unit: str = ""
    how: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which has no NaN."""
        return {
            key: None if isinstance(value, float) and not np.isfinite(value) else value for key, value in asdict(self).items()
        }


def curve(data: xr.Dataset, name: str, split: str = "test") -> np.ndarray:
    """A variable as (seeds, epoch, ...); one row for a single run or an unseeded theory."""
    chosen = data[name].sel(split=split) if "split" in data[name].dims else data[name]
    return chosen.transpose("seed", "epoch", ...).values if "seed" in chosen.dims else chosen.values[None]


def over_seeds(values: Iterable[float], unit: str = "", how: str = "") -> Measured:
    """Mean and standard deviation of one number a seed; those that are not finite are left out, and counted."""
    every = np.asarray(list(values), dtype=np.float64)
    finite = every[np.isfinite(every)]
    lost = len(every) - len(finite)
    if lost:
        how = f"{how}; {lost} of {len(every)} seeds never" if how else f"{lost} of {len(every)} seeds never"
    if len(finite) == 0:
        return Measured(float("nan"), None, unit, how)
    return Measured(float(finite.mean()), float(finite.std(ddof=1)) if len(finite) > 1 else None, unit, how)


def at(data: xr.Dataset, name: str, alpha: float, split: str = "test") -> Measured | None:
    """A variable at a training time, interpolated between evaluations; None after the last one."""
    if alpha > data.alpha.values[-1]:
        return None
    return over_seeds(np.interp(alpha, data.alpha.values, row) for row in curve(data, name, split))


def at_epoch(data: xr.Dataset, name: str, position: int, split: str = "test") -> Measured:
    """A variable at the first (0) or last (-1) evaluation."""
    return over_seeds(curve(data, name, split)[:, position])


def reaches(data: xr.Dataset, name: str, level: float, split: str = "test") -> Measured:
    """When each seed's curve first reaches a level."""
    alpha = data.alpha.values
    return over_seeds((crossing(alpha, row, level) for row in curve(data, name, split)), "α")


def mean_reaches(data: xr.Dataset, name: str, level: float, split: str = "test") -> float:
    """When the mean over seeds first reaches a level; NaN if never."""
    return crossing(data.alpha.values, curve(data, name, split).mean(axis=0), level)


def distance(run: xr.Dataset, theory: xr.Dataset, name: str, split: str = "test") -> dict[str, Any] | None:
    """How far a theory is from a simulation over the whole run: of means over seeds, and seed by seed.

    A theory that knows seeds is compared on those that both have; `per_seed_max` is then the largest error of any seed.
    """
    if name not in theory or name not in run:
        return None
    mine, theirs = seed_numbers(run), seed_numbers(theory)
    shared = [seed for seed in mine if not theirs or seed in theirs]
    if not shared:
        return None
    measured = curve(run, name, split)[[mine.index(seed) for seed in shared]]
    predicted = curve(theory, name, split)
    if theirs:
        predicted = predicted[[theirs.index(seed) for seed in shared]]
    if predicted.shape[1:] != measured.shape[1:]:
        return None
    error = np.abs(predicted.mean(axis=0) - measured.mean(axis=0))
    result: dict[str, Any] = {"max": float(error.max()), "mean": float(error.mean()), "seeds": len(shared)}
    result["alpha_of_max"] = float(run.alpha[int(error.argmax())])
    result["per_seed_max"] = float(np.abs(predicted - measured).max()) if theirs else None
    return result


def cost(run: xr.Dataset) -> dict[str, float]:
    """Seconds and gradients a seed, medians."""
    seconds = np.atleast_1d(np.asarray(run["wall_seconds"] if "wall_seconds" in run else run.attrs.get("wall_seconds", np.nan)))
    gradients = np.atleast_1d(np.asarray(run["gradients"] if "gradients" in run else run.attrs.get("gradients", np.nan)))
    return {"seconds": float(np.median(seconds)), "gradients": float(np.median(gradients)), "total": float(seconds.sum())}
