"""Engine `flow` is the limit of small learning rates."""

from __future__ import annotations

import numpy as np
import pytest

import cotflow as cf


def at_fixed_time(lr: float, engine: str, **tolerances):
    """A run over the same lr * epochs, evaluated at the same times."""
    base = cf.Config.preset("smoke", n_train_seq=256, n_test_seq=64, dtype="float64", lr=lr)
    cfg = base.replace(train_epochs=round(300 / lr), eval_every=round(10 / lr))
    return cf.simulate(cfg, 0, engine=engine, threads=1, **tolerances)


@pytest.fixture(scope="module")
def flow():
    return at_fixed_time(0.5, "flow", rtol=1e-7, atol=1e-7)


def test_steps_approach_it_in_proportion_to_the_learning_rate(flow):
    distance = {lr: np.abs(at_fixed_time(lr, "steps").A.values - flow.A.values).max() for lr in (1.0, 0.5, 0.25)}
    assert distance[0.5] > 1e-4
    assert distance[1.0] / distance[0.5] == pytest.approx(2, abs=0.1)
    assert distance[0.5] / distance[0.25] == pytest.approx(2, abs=0.1)


def test_the_distance_of_leap_to_steps_does_not_depend_on_the_learning_rate():
    for lr in (1.0, 0.5, 0.25):
        leap, steps = at_fixed_time(lr, "leap", rtol=1e-6, atol=1e-6), at_fixed_time(lr, "steps")
        assert np.abs(leap.A.values - steps.A.values).max() < 4e-6


def test_flow_depends_on_learning_rate_times_epochs_alone(flow):
    other = at_fixed_time(0.125, "flow", rtol=1e-7, atol=1e-7)
    for name in ("A", "R", "S", "loss"):
        assert np.abs(other[name].values - flow[name].values).max() < 3e-6, name


def test_flow_conserves_the_norm_difference_in_every_plane(flow):
    """d(|q_n|² - |k_n|²)/dtau = 0 in each RoPE plane, which steps of finite length break at first order in lr."""

    def drift(run) -> float:
        def norms(w):
            return (w.values.reshape(-1, 2) ** 2).sum(1)

        start, end = (norms(run[f"{s}_w_q"]) - norms(run[f"{s}_w_k"]) for s in ("initial", "final"))
        return float(np.abs(end - start).max())

    assert drift(flow) < 1e-6
    assert drift(at_fixed_time(0.5, "steps")) > 1e-4


def test_flow_lowers_the_loss_all_along(flow):
    assert (np.diff(flow.loss.sel(split="train")) < 0).all()
