"""Weights: the initial draw, the teacher that solves the task, and the shapes that a config needs."""

from __future__ import annotations

import numpy as np
import pytest

import oracles
from cotflow import Config, Params, Task
from cotflow.attention import attention
from cotflow.gradients import backend

SMALL = Config(N=5, L=3, d_g=4, d_h=6, n_train_seq=30, n_test_seq=10)


def test_the_recipe_is_pinned():
    """Uniform draws of `default_rng([seed, 1])` in the order w_q, w_k, m, whatever the precision."""
    rng = np.random.default_rng([7, 1])
    draws = [rng.uniform(-1, 1, shape) for shape in [6, 6, (4, 5, 5)]]
    exact = Params.initial(SMALL.replace(dtype="float64"), 7)
    rounded = Params.initial(SMALL, 7)
    for draw, (_, x), (_, y) in zip(draws, exact.items(), rounded.items(), strict=True):
        np.testing.assert_allclose(x, draw, rtol=1e-15)
        assert np.array_equal(y, x.astype(np.float32))


@pytest.mark.parametrize("variance", [1 / 3, 0.02])
def test_initial_weights_are_uniform_with_the_asked_variance(variance):
    m = Params.initial(SMALL.replace(N=40, d_g=40, init_variance=variance), 0).m
    assert m.var() == pytest.approx(variance, rel=0.01)
    assert np.abs(m).max() == pytest.approx(np.sqrt(3 * variance), rel=1e-3)


@pytest.mark.parametrize(
    ("preset", "paper", "tolerance"), [("main", (0.0440, 0.0438), 0.001), ("robustness", (0.0467, 0.0466), 0.0015)]
)
def test_initial_logit_variances_are_the_papers(preset, paper, tolerance):
    """Mean over 8 seeds of var_k, var_o; the tolerance is 3 to 5 standard errors over seeds."""
    cfg = Config.preset(preset, n_train_seq=2048)
    found = [backend("fused").statistics(cfg, Params.initial(cfg, seed), Task(cfg, seed).train) for seed in range(8)]
    assert np.mean([x.var_k for x in found]) == pytest.approx(paper[0], abs=tolerance)
    assert np.mean([x.var_o for x in found]) == pytest.approx(paper[1], abs=tolerance)
    assert abs(np.mean([x.mu_k for x in found])) < 0.01


@pytest.mark.parametrize("name", ["main", "robustness", "smoke"])
def test_the_teacher_as_weights_never_errs_in_a_rollout(name):
    cfg = Config.preset(name, n_train_seq=10)
    task = Task(cfg, 0)
    weights = Params.teacher(cfg, task)
    pi = attention(cfg, weights.w_q, weights.w_k)
    assert np.diag(pi).min() > 0.99
    generated = oracles.rollout(pi, weights.m, task.test.actions[:100], task.test.states[:100, 0])
    assert np.array_equal(generated, task.test.states[:100])


def test_frequencies_that_cannot_tell_the_lags_apart_are_named():
    """One plane of frequency 2π turns every lag into the same angle."""
    cfg = SMALL.replace(d_h=2)
    with pytest.raises(ValueError, match="d_h = 2"):
        Params.teacher(cfg, Task(cfg, 0))


def test_flattening_and_back_changes_nothing():
    params = Params.initial(SMALL.replace(fix_embedding=False, d_model=3), 0)
    again = params.unflatten(params.flatten())
    assert [name for name, _ in again.items()] == ["w_q", "w_k", "m", "embedding"]
    for (_, x), (_, y) in zip(params.items(), again.items(), strict=True):
        assert np.array_equal(x, y)
        assert x.dtype == y.dtype


def test_weights_that_do_not_fit_are_refused_by_block():
    with pytest.raises(ValueError, match=r"params\.m has shape \(4, 5, 5\)"):
        Params.initial(SMALL, 0).check(SMALL.replace(N=6))
    with pytest.raises(ValueError, match=r"params\.w_q has shape \(6,\); this config needs \(6, 2\)"):
        Params.initial(SMALL, 0).check(SMALL.replace(d_model=2))


def test_wider_embeddings_start_as_the_same_distribution_of_keys():
    """The sum over d_model columns, what a unit embedding sees, has the variance of the paper's vectors."""
    cfg = SMALL.replace(d_h=4000, d_model=8)
    assert Params.initial(cfg, 0).w_q.sum(axis=1).var() == pytest.approx(1 / 3, rel=0.1)
