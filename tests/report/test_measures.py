"""Numbers in the report mean what they are called."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from cotflow.report import measures, page
from cotflow.report.measures import Measured


def learned(seeds, times):
    """Curves A that are straight lines from 0, reaching 1 at the given times."""
    alpha = np.linspace(0, 4, 41)
    curves = np.array([np.minimum(alpha / time, 1.0) for time in times])
    return xr.Dataset({"A": (("seed", "epoch"), curves)}, coords={"seed": seeds, "alpha": ("epoch", alpha), "epoch": range(41)})


def test_values_at_a_time_and_times_of_a_value():
    run = learned([0, 1], [2.0, 4.0])
    assert measures.at(run, "A", 1.03).value == pytest.approx((1.03 / 2 + 1.03 / 4) / 2)
    crossed = measures.reaches(run, "A", 0.5)
    assert crossed.value == pytest.approx(1.5)
    assert crossed.spread == pytest.approx(np.std([1.0, 2.0], ddof=1))
    assert measures.at(run, "A", 4.01) is None
    assert measures.mean_reaches(run, "A", 0.5) == pytest.approx(0.5 * 2 / (0.5 + 0.25))


def test_seeds_that_never_cross_are_counted_not_averaged():
    crossed = measures.reaches(learned([0, 1, 2], [2.0, 4.0, 100.0]), "A", 0.5)
    assert crossed.value == pytest.approx(1.5)
    assert crossed.how == "1 of 3 seeds never"
    assert np.isnan(measures.reaches(learned([0], [100.0]), "A", 0.5).value)
    assert measures.reaches(learned([0], [100.0]), "A", 0.5).as_dict()["value"] is None


def test_one_seed_has_no_spread():
    assert measures.reaches(learned([3], [2.0]), "A", 0.5).spread is None


def test_distance_is_over_shared_seeds_and_tells_the_worst_one():
    run, theory = learned([0, 1, 2], [2.0, 4.0, 1.0]), learned([1, 2, 9], [3.5, 1.1, 2.0])
    error = measures.distance(run, theory, "A")
    mean = (run.A.sel(seed=[1, 2]).mean("seed") - theory.A.sel(seed=[1, 2]).mean("seed")).values
    each = np.abs(run.A.sel(seed=[1, 2]) - theory.A.sel(seed=[1, 2])).values
    assert error is not None
    assert (error["max"], error["mean"]) == pytest.approx((np.abs(mean).max(), np.abs(mean).mean()))
    assert error["per_seed_max"] == pytest.approx(each.max())
    assert error["seeds"] == 2
    assert error["alpha_of_max"] == pytest.approx(float(run.alpha[np.abs(mean).argmax()]))


def test_a_theory_without_seeds_is_held_against_the_mean_of_all():
    run = learned([0, 1], [2.0, 4.0])
    error = measures.distance(run, learned([0], [2.0]).isel(seed=0, drop=True), "A")
    assert error is not None
    assert error["seeds"] == 2
    assert error["per_seed_max"] is None
    assert error["max"] == pytest.approx(0.25)  # at alpha = 2: 1 against the mean of 1 and 1/2


def test_what_cannot_be_compared_is_none():
    run = learned([0, 1], [2.0, 4.0])
    assert measures.distance(run, run, "R") is None
    assert measures.distance(run, learned([7], [2.0]), "A") is None


@pytest.mark.parametrize(
    ("measured", "told"),
    [
        (Measured(0.04384, 0.00061), "0.0438 ± 0.0006"),
        (Measured(0.34012, 0.1549), "0.340 ± 0.155"),
        (Measured(5.5231, 0.412, "α"), "α = 5.52 ± 0.41"),
        (Measured(2.874, None, "s"), "2.87 s"),
        (Measured(-22.18, None, "%"), "−22.2 %"),
        (Measured(1.05e-5), "1.05×10⁻⁵"),
        (Measured(0.5), "0.500"),
        (Measured(0.0), "0"),
        (Measured(1800.0, None, "s"), "1800 s"),
        (Measured(float("nan"), None, "α"), "never"),
    ],
)
def test_numbers_are_told_with_three_digits_and_their_spread(measured, told):
    assert page.number(measured) == told
