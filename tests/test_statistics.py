"""Statistics of ensembles against what is known of the samples."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import cotflow as cf


def ensemble(values: np.ndarray, alpha: np.ndarray) -> xr.Dataset:
    """Runs with a given accuracy (seed, epoch) on both splits, on train 0.1 above test."""
    both = np.stack([values + 0.1, values], axis=-1)
    data = {"rollout_accuracy": (("seed", "epoch", "split"), both), "A": (("seed", "epoch"), values)}
    coords = {
        "epoch": np.arange(len(alpha)),
        "alpha": ("epoch", alpha),
        "split": ["train", "test"],
        "seed": np.arange(len(values)),
    }
    return xr.Dataset(data, coords=coords)


def test_over_seeds_is_what_numpy_says_of_the_sample():
    values = np.random.default_rng(0).normal(size=(12, 5))
    summary = cf.statistics.over_seeds(ensemble(values, np.arange(5.0)), quantiles=(0.1, 0.5))
    assert summary.statistic.values.tolist() == ["mean", "std", "q0.1", "q0.5"]
    assert np.allclose(summary.A.sel(statistic="mean"), values.mean(axis=0))
    assert np.allclose(summary.A.sel(statistic="std"), values.std(axis=0, ddof=1))
    assert np.allclose(summary.A.sel(statistic="q0.1"), np.quantile(values, 0.1, axis=0))
    assert summary.rollout_accuracy.dims == ("statistic", "epoch", "split")
    assert np.isnan(cf.statistics.over_seeds(ensemble(values[:1], np.arange(5.0))).A.sel(statistic="std")).all()


def test_crossing_finds_the_moment_between_evaluations():
    alpha = np.array([0.0, 1.0, 3.0, 4.0])
    rising, never, at_once, later_again = [0.0, 0.2, 0.8, 0.9], [0.1, 0.2, 0.3, 0.4], [0.6, 0.1, 0.1, 0.1], [0.0, 0.5, 0.2, 1.0]
    runs = ensemble(np.array([rising, never, at_once, later_again]), alpha)
    times = cf.statistics.crossing(runs, "rollout_accuracy", 0.5)
    assert np.allclose(times, [2.0, np.inf, 0.0, 1.0])
    assert np.allclose(cf.statistics.crossing(runs, "rollout_accuracy", 0.5, split="train")[0], 1 + 2 * 0.2 / 0.6)
    assert np.allclose(cf.statistics.crossing(runs, "A", 0.9)[[0, 3]], [4.0, 3 + 0.7 / 0.8])
    with pytest.raises(ValueError, match="no dimension seed"):
        cf.statistics.crossing(runs.isel(seed=0), "A", 0.5)


def test_a_bootstrap_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(1)
    trials, inside = 400, 0
    for _ in range(trials):
        estimate, low, high = cf.statistics.bootstrap(rng.normal(3.0, 1.0, 30), np.mean, rng, resamples=400, confidence=0.9)
        assert low <= estimate <= high
        inside += low <= 3.0 <= high
    # percentile intervals of the mean of 30 cover a little less than they promise; the count's own deviation is 0.015
    assert 0.83 < inside / trials < 0.94


def test_seeds_that_never_cross_widen_the_interval_to_infinity():
    values = np.zeros((9, 11))
    values[:6] = np.linspace(0, 1, 11)
    made = cf.statistics.transition(ensemble(values, np.arange(11.0)), "A", 0.5)
    assert float(made.alpha) == pytest.approx(5.0)
    assert float(made.low) == pytest.approx(5.0)
    assert np.isinf(float(made.high))
    assert float(made.crossed) == pytest.approx(6 / 9)
    assert made.equals(cf.statistics.transition(ensemble(values, np.arange(11.0)), "A", 0.5))


def test_one_seed_tells_nothing_of_others():
    made = cf.statistics.transition(ensemble(np.linspace(0, 1, 11)[None], np.arange(11.0)), "A", 0.5)
    assert float(made.alpha) == pytest.approx(5.0)
    assert np.isnan(made.low)
    assert np.isnan(made.high)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"variable": "nonsense"}, "variable = 'nonsense' is not allowed; allowed: rollout_accuracy, A"),
        ({"split": "x"}, "split = 'x' is not allowed; allowed: train, test"),
        ({"confidence": 95}, "confidence = 95 is not allowed; allowed: numbers between 0 and 1"),
    ],
)
def test_what_cannot_be_asked_for_is_told_with_what_can(change, told):
    runs = ensemble(np.random.default_rng(0).random((3, 4)), np.arange(4.0))
    with pytest.raises(ValueError, match=told):
        cf.statistics.transition(runs, **change)
