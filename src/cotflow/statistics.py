"""Statistics of ensembles: over seeds, of the time at which something is learned, and from point to point of a sweep.

All functions take Datasets with dimension `seed`, as `cf.load` and `cf.ensemble` return them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

#: Estimates from a sample of seeds come with intervals of this confidence unless another is asked for.
CONFIDENCE = 0.95


def over_seeds(runs: xr.Dataset, quantiles: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)) -> xr.Dataset:
    """Mean, standard deviation and quantiles over seeds of every curve, along a dimension `statistic` ("mean", "std", "q0.5").

    The standard deviation is that of a sample (n - 1), not a number for a single seed. Weights are left out.
    """
    _require_seeds(runs)
    curves = runs[[name for name in runs.data_vars if "epoch" in runs[name].dims and "seed" in runs[name].dims]]
    several = runs.sizes["seed"] > 1
    spread = curves.std("seed", ddof=1) if several else xr.full_like(curves.isel(seed=0, drop=True), np.nan)
    parts = [curves.mean("seed"), spread, *(curves.quantile(q, "seed").drop_vars("quantile") for q in quantiles)]
    labels = ["mean", "std", *(f"q{q:g}" for q in quantiles)]
    joined = {
        name: (("statistic", *parts[0][name].dims), np.stack([part[name].values for part in parts]), curves[name].attrs)
        for name in curves.data_vars
    }
    kept = {name: value for name, value in runs.coords.items() if "seed" not in value.dims}
    return xr.Dataset(joined, coords={"statistic": labels, **kept}, attrs={**runs.attrs, "seeds": runs.sizes["seed"]})


def crossing(runs: xr.Dataset, variable: str = "rollout_accuracy", level: float = 0.5, split: str = "test") -> xr.DataArray:
    """The alpha at which each seed's curve first reaches `level`, interpolated linearly between evaluations; one number a seed.

    Infinite where the curve does not reach it within the run, so that medians and other quantiles over seeds stay right. A curve
    that begins there crosses at its first alpha.
    """
    _require_seeds(runs)
    curve = runs[variable]
    if "split" in curve.dims:
        curve = curve.sel(split=split, drop=True)
    if curve.ndim != 2:
        raise ValueError(f"variable = {variable!r} has dimensions {curve.dims}; allowed: one number a seed and epoch")
    values, alpha = curve.transpose("seed", "epoch").values, runs.alpha.values
    first = np.argmax(values >= level, axis=1)
    reached = (values >= level).any(axis=1)
    before, seed = np.maximum(first - 1, 0), np.arange(len(values))
    rise = values[seed, first] - values[seed, before]
    part = np.divide(level - values[seed, before], rise, out=np.zeros_like(rise), where=rise > 0)
    time = np.where(first == 0, alpha[0], alpha[before] + part * (alpha[first] - alpha[before]))
    meaning = f"alpha at which {variable} reaches {level:g}"
    return xr.DataArray(
        np.where(reached, time, np.inf), coords={"seed": runs.seed.values}, dims="seed", attrs={"long_name": meaning}
    )


def bootstrap(
    values: np.ndarray,
    statistic: Callable[..., np.ndarray] = np.median,
    rng: np.random.Generator | None = None,
    resamples: int = 2_000,
    confidence: float = CONFIDENCE,
) -> tuple[float, float, float]:
    """A statistic of a sample and its percentile bootstrap interval: estimate, low, high.

    `statistic` is called with `axis=1`. Infinite values are kept: a limit may be infinite where many seeds did not cross.
    `rng` is `default_rng(0)` by default, so that a table made twice is the same.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.size == 0:
        return np.nan, np.nan, np.nan
    rng = np.random.default_rng(0) if rng is None else rng
    drawn = values[rng.integers(0, len(values), (resamples, len(values)))]
    with np.errstate(invalid="ignore"):  # a mean over infinities of both signs, or a median between them
        estimates = statistic(drawn, axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(estimates, [tail, 1 - tail], method="inverted_cdf")
    return float(statistic(values[None], axis=1)[0]), float(low), float(high)


def transition(
    runs: xr.Dataset,
    variable: str = "rollout_accuracy",
    level: float = 0.5,
    split: str = "test",
    rng: np.random.Generator | None = None,
    confidence: float = CONFIDENCE,
) -> xr.Dataset:
    """When an ensemble learns: median of `crossing` over seeds, its bootstrap interval, and the fraction of seeds that cross."""
    times = crossing(runs, variable, level, split)
    alpha, low, high = bootstrap(times.values, rng=rng, confidence=confidence)
    made = xr.Dataset({"alpha": alpha, "low": low, "high": high, "crossed": float(np.isfinite(times).mean())})
    made.attrs = {"variable": variable, "level": level, "split": split, "confidence": confidence, "seeds": len(times)}
    return made


def _require_seeds(runs: xr.Dataset) -> None:
    if "seed" not in runs.dims or runs.sizes["seed"] == 0:
        raise ValueError(
            "this Dataset has no dimension seed; allowed: runs of one or more seeds, as cf.load(directory) gives them"
        )
