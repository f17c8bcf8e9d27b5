"""Tier 1: the paper's three equations, their solution and its limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import cotflow as cf
from cotflow.attention import attention
from cotflow.theory import closure, early, onset
from cotflow.theory.closure import Closure, initial_logit_variance
from cotflow.theory.limits import onset_time
from cotflow.theory.rollout import crossing

MAIN = cf.Config.preset("main")


def test_solution_of_the_main_table():
    theory = Closure.of(MAIN)
    A, R, S = theory.solve(np.array([0.0, 1, 2, 3, 4, 19]))
    assert A[1:5] == pytest.approx([0.12807, 0.28834, 0.86468, 0.99982], abs=1e-5)
    assert R[1:] == pytest.approx([0.06617, 0.16917, 0.43993, 0.89716, 4.6558], abs=5e-5)
    assert S[4] == pytest.approx(0.032964, abs=1e-6)


def test_the_equations_are_the_papers_in_A_itself():
    cfg = MAIN.replace(N=16, L=7, d_g=12, lr=0.3)
    theory = Closure.of(cfg)
    N, L, d_g, eta = cfg.N, cfg.L, cfg.d_g, cfg.lr

    def paper(alpha, y):
        A, R, S = y
        mu_k = (A + (1 - A) / d_g) * R + (d_g - 1) / d_g * (1 - A) * S
        rate = eta / (1 + np.exp(mu_k + mu_k / (N - 1)) / (N - 1))
        dA = rate * N / (N - 1) * (d_g - 1) / d_g * theory.c_omega * L * A * (1 - A) * (R - S)
        return dA, rate * (A + (1 - A) / d_g), rate * (1 - A) / d_g

    grid = np.linspace(0, 4, 9)
    direct = solve_ivp(paper, (0, 4), [1 / L, 0, 0], t_eval=grid, method="LSODA", rtol=1e-10, atol=1e-12)
    assert np.array(theory.solve(grid)) == pytest.approx(direct.y, abs=1e-8)


def test_A_stays_inside_its_bounds_however_long_training_lasts():
    A, *_ = Closure.of(MAIN).solve(np.linspace(0, 500, 50))
    assert (A > 0).all()
    assert (A <= 1).all()


def test_uniform_ansatz_starts_alike_and_rises_more_steeply():
    first, second = closure(MAIN), closure(MAIN, power=2)
    slopes = [float(np.gradient(th.A.values, th.alpha.values).max()) for th in (first, second)]
    assert second.A[2] == pytest.approx(float(first.A[2]), abs=1e-5)
    assert slopes[1] > 1.5 * slopes[0]


def test_finite_size_overlap_reduces_to_the_paper_at_one_over_N():
    same, smaller = closure(MAIN, tau=1 / 32), closure(MAIN, tau=0.02)
    assert same.S.values == pytest.approx(closure(MAIN).S.values, abs=1e-9)
    assert float(smaller.S[-1]) < float(same.S[-1]) - 0.01


def test_what_is_frozen_stays():
    still = closure(MAIN.replace(freeze="attention"))
    assert still.A.values == pytest.approx(0.1, abs=1e-15)
    assert float(still.R[-1]) > 1
    untaught = closure(MAIN.replace(freeze="logic"))
    assert untaught.A.values == pytest.approx(0.1, abs=1e-15)  # nothing to retrieve for
    assert not untaught.R.any()


def test_constant_variance_is_that_of_the_initial_logits():
    expected = []
    for seed in range(40):
        p = cf.Params.initial(MAIN, seed)
        q = (attention(MAIN, p.w_q, p.w_k) ** 2).sum(axis=1).mean()
        expected.append((q + (1 - q) / 32) / 3)
    assert initial_logit_variance(MAIN) == pytest.approx(np.mean(expected), abs=4 * np.std(expected) / np.sqrt(40))
    assert initial_logit_variance(MAIN) == pytest.approx(0.044, abs=5e-4)


def test_rollout_transition_with_the_papers_constant_variances_comes_early():
    th = closure(MAIN)
    assert crossing(th.alpha.values, th.rollout_accuracy.values) == pytest.approx(3.7, abs=0.05)
    assert float(th.rollout_accuracy[0]) == pytest.approx(1 / 32, abs=1e-6)
    assert float(th.rollout_accuracy[-1]) > 0.999


def test_variances_may_be_numbers_curves_or_a_trajectory():
    base = closure(MAIN)
    n = base.sizes["epoch"]
    numbers = closure(MAIN, variances=(0.2, 0.3))
    curves = closure(MAIN, variances=(np.full(n, 0.2), np.full(n, 0.3)))
    trajectory = closure(MAIN, variances=numbers)
    assert (numbers.rollout_accuracy == curves.rollout_accuracy).all()
    assert (numbers.rollout_accuracy == trajectory.rollout_accuracy).all()
    assert crossing(base.alpha.values, numbers.rollout_accuracy.values) > 4.5  # wider logits, later transition
    for wrong in [(0.1, -0.1), (0.1, np.ones(3)), base.drop_vars("var_k")]:
        with pytest.raises(ValueError, match="variances"):
            closure(MAIN, variances=wrong)


def test_early_regime_is_the_tangent_of_the_solution():
    th, line = closure(MAIN.replace(eval_every=5)), early(MAIN.replace(eval_every=5))
    for name in ("R", "S"):
        error = abs(th[name] - line[name]).values
        assert error[2] < 1e-5  # alpha = 0.01
        assert error[20] / error[10] > 3.3  # the error of a tangent: at least quadratic in time
    assert float(abs(th.A - line.A).sel(epoch=50)) < 1e-4


def test_onset_follows_the_plateau_and_its_exponential_rise():
    th, leading, full = closure(MAIN), onset(MAIN), onset(MAIN, leading=False)
    plateau = th.alpha.values < 1.5  # A grows from 0.10 to 0.18
    assert abs(th.A - full.A).values[plateau].max() < 0.01
    assert abs(th.A - leading.A).values[plateau].max() < 0.015
    assert abs(th.A - onset(MAIN.replace(freeze="logic")).A).values[plateau].max() > 0.07
    assert np.isnan(leading.A.values[-1])
    assert np.nanmax(leading.A.values) <= 1
    assert full.A.values[-1] == pytest.approx(1)


def test_onset_time_scales_as_one_over_the_learning_rate_and_the_weights_spread():
    assert onset_time(MAIN.replace(lr=0.25)) == pytest.approx(2 * onset_time(MAIN))
    assert onset_time(MAIN.replace(init_variance=1 / 12)) == pytest.approx(2 * onset_time(MAIN))
