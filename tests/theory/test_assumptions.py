"""The measured assumptions behind the rollout formula."""

from __future__ import annotations

import numpy as np
import pytest

import cotflow as cf
import oracles
from cotflow.theory import assumptions
from cotflow.theory.rollout import rollout_recursion

CFG = cf.Config(N=8, L=5, d_g=6, d_h=10, n_train_seq=400, n_test_seq=50)


def test_logits_are_the_students():
    task, params = cf.Task(CFG, 0), cf.Params.initial(CFG, 0)
    expected = oracles.logits(oracles.attention(CFG, params.w_q, params.w_k), params.m, task.test)
    assert assumptions.logits(CFG, params, task.test) == pytest.approx(expected, abs=1e-6)


def test_correlations_of_equicorrelated_gaussians():
    """z_k and eleven others with correlations 0.3 among the others and -0.2 with z_k, 40,000 draws."""
    K, rng = 11, np.random.default_rng(0)
    covariance = np.full((K + 1, K + 1), 0.3)
    covariance[0, :] = covariance[:, 0] = -0.2
    np.fill_diagonal(covariance, 1)
    z = rng.multivariate_normal(np.zeros(K + 1), covariance, 40_000)
    assert assumptions.correlation_among(z[:, 1:]) == pytest.approx(0.3, abs=0.01)
    assert assumptions.correlation_with_others(z[:, 0], z[:, 1:]) == pytest.approx(-0.2, abs=0.01)


def test_initial_logits_are_nearly_gaussian_and_nearly_independent():
    cfg = CFG.replace(N=32, d_g=32, L=10, d_h=32, n_train_seq=2_000)
    g = assumptions.gaussianity(cfg, cf.Params.initial(cfg, 0), cf.Task(cfg, 0).train)
    assert abs(g.skewness.values).max() < 0.05
    assert abs(g.excess_kurtosis.values).max() < 0.25  # uniform weights alone would have -1.2
    assert abs(g.correlation.values).max() < 0.02


def test_moments_and_histograms_tell_a_shape_that_is_not_gaussian():
    """The teacher's logits are two-valued: no Gaussian is close to their density."""
    task = cf.Task(CFG, 0)
    params = cf.Params.initial(CFG, 0)
    teacher = cf.Params(params.w_q, params.w_k, task.teacher)
    g = assumptions.gaussianity(CFG, teacher, task.train)
    h = assumptions.histograms(CFG, teacher, task.train, bins=40)
    assert g["skewness"].sel(logit="other") > 1
    width = float(h.z[1] - h.z[0])
    assert h.density.sum("z").values * width == pytest.approx(1, abs=1e-12)
    assert abs(h.density - h.gaussian).sel(logit="other").sum() * width > 0.3


def test_a_training_is_measured_moment_by_moment():
    """Logits are Gaussian at first, and not when the matrices are learned; histograms share the edges that they are given."""
    cfg = CFG.replace(train_epochs=600, eval_every=100)
    run, split = cf.simulate(cfg, 0, save_params=[200]), cf.Task(cfg, 0).train
    measured = assumptions.over_training(run, split, assumptions.gaussianity)
    assert measured.epoch.values.tolist() == [0, 200, 600]
    assert measured.alpha.values == pytest.approx(np.array([0, 200, 600]) / 48)
    middle = assumptions.gaussianity(cfg, cf.Params.of(run, 200), split)
    assert measured.sel(epoch=200).drop_vars(["epoch", "alpha"]).identical(middle)
    edges = np.linspace(-4, 8, 61)
    h = assumptions.over_training(run, split, lambda *student: assumptions.histograms(*student, bins=edges))
    assert (h.density.sum("z") * 0.2).values == pytest.approx(1, abs=0.01)


def test_sequences_of_another_task_are_refused():
    other = cf.Task(CFG.replace(N=9), 0).train
    with pytest.raises(ValueError, match="states"):
        assumptions.gaussianity(CFG, cf.Params.initial(CFG, 0), other)


def test_measured_steps_rebuild_the_measured_accuracy_exactly():
    """The recursion is an identity in the measured A_t and B_t, for an untrained and for a half-trained student."""
    task = cf.Task(CFG, 1)
    run = cf.simulate(CFG.replace(train_epochs=60, eval_every=60), 1)
    for params in (cf.Params.initial(CFG, 1), cf.Params.of(run)):
        steps = assumptions.rollout_steps(CFG, params, task.train)
        recover = np.nan_to_num(steps.B_t.values)  # nobody is off the track before the first step
        assert rollout_recursion(steps.A_t.values, recover) == pytest.approx(steps.accuracy.values, abs=1e-14)
        assert steps.B_assumed.values == pytest.approx((1 - steps.A_t.values) / (CFG.N - 1))


def test_a_perfect_student_never_needs_to_recover():
    task = cf.Task(CFG, 0)
    steps = assumptions.rollout_steps(CFG, cf.Params.teacher(CFG, task), task.train)
    assert (steps.A_t == 1).all()
    assert steps.B_t.isnull().all()
    assert steps.recursion.values == pytest.approx(1)
