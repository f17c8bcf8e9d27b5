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
    """The alpha at which each seed's curve first reaches `level` from below, interpolated linearly between evaluations.

    Infinite where the curve does not reach it within the run, so that medians and other quantiles over seeds stay right. A curve
    that begins at or above the level crosses at its first alpha, whatever it does later: of a falling curve, such as the loss,
    take the negative.
    """
    values, alpha = _curve(runs, variable, split).transpose("seed", "epoch").values, runs.alpha.values
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

    `statistic` is called with `axis=1`. Infinite values are kept: a limit may be infinite where many seeds did not cross. One
    value tells nothing of others, so its limits are not numbers. `rng` is `default_rng(0)` by default, so that a table made twice
    is the same.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence = {confidence!r} is not allowed; allowed: numbers between 0 and 1, such as 0.95")
    values = np.asarray(values, dtype=np.float64)
    if values.size == 0:
        return np.nan, np.nan, np.nan
    rng = np.random.default_rng(0) if rng is None else rng
    drawn = values[rng.integers(0, len(values), (resamples, len(values)))]
    with np.errstate(invalid="ignore"):  # a mean over infinities of both signs, or a median between them
        estimates = statistic(drawn, axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(estimates, [tail, 1 - tail], method="inverted_cdf") if len(values) > 1 else (np.nan, np.nan)
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


def _curve(runs: xr.Dataset, variable: str, split: str) -> xr.DataArray:
    """One number a seed and epoch."""
    _require_seeds(runs)
    allowed = [str(name) for name, curve in runs.data_vars.items() if set(curve.dims) - {"split"} == {"seed", "epoch"}]
    if variable not in allowed:
        raise ValueError(f"variable = {variable!r} is not allowed; allowed: {', '.join(allowed)}")
    curve = runs[variable]
    if "split" not in curve.dims:
        return curve
    if split not in curve.split.values:
        raise ValueError(f"split = {split!r} is not allowed; allowed: {', '.join(map(str, curve.split.values))}")
    return curve.sel(split=split, drop=True)


def _require_seeds(runs: xr.Dataset) -> None:
    if "seed" not in runs.dims or runs.sizes["seed"] == 0:
        raise ValueError(
            "this Dataset has no dimension seed; allowed: runs of one or more seeds, as cf.load(directory) gives them"
        )
