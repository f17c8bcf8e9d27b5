"""Engine `flow` is the limit of small learning rates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import cotflow as cf
from cotflow.engines.descent import frozen_blocks


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


@pytest.mark.parametrize(
    "changes", [{}, {"weight_decay": 0.02}, {"freeze": "logic"}, {"freeze": "attention", "weight_decay": 0.02}]
)
def test_it_is_the_solution_of_an_independent_integrator(changes):
    cfg = cf.Config(N=5, L=3, d_g=4, d_h=6, n_train_seq=64, n_test_seq=8, lr=4.0, train_epochs=25, dtype="float64", eval_every=5)
    cfg = cfg.replace(**changes)
    task, start = cf.Task(cfg, 0), cf.Params.initial(cfg, 0)
    free = np.concatenate([np.full(b.size, float(name not in frozen_blocks(cfg))) for name, b in start.items()])

    def f(tau, x):
        return -free * (cf.gradient(cfg, start.unflatten(x), task.train)[1].flatten() + cfg.weight_decay * x)

    exact = solve_ivp(f, (0, cfg.lr * cfg.train_epochs), start.flatten(), method="DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    run = cf.simulate(cfg, 0, engine="flow", rtol=1e-8, atol=1e-8, save_params=[cfg.train_epochs])
    for at in (None, cfg.train_epochs):
        assert np.abs(cf.Params.of(run, at).flatten() - exact).max() < 3e-6
    assert np.abs(run.snapshot_m.values[0] - run.final_m.values).max() == 0


def test_flow_lowers_the_loss_all_along(flow):
    assert (np.diff(flow.loss.sel(split="train")) < 0).all()
