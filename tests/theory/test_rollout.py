"""From logit statistics to the accuracy of a whole chain."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from cotflow.theory import rollout

CASES = [
    (0.0, 1.0, 0.0, 1.0, 32),
    (2.0, 0.04, 0.0, 0.3, 32),
    (0.5, 4.0, -0.3, 0.05, 8),
    (1.0, 1e-6, 0.0, 1.0, 5),
    (1.0, 1.0, 0.0, 1e-6, 5),
]


@pytest.mark.parametrize("case", CASES)
def test_rho_against_adaptive_quadrature_of_the_papers_integral(case):
    mu_k, var_k, mu_o, var_o, N = case
    s, d = np.sqrt(var_k / var_o), (mu_k - mu_o) / np.sqrt(var_o)
    knots = sorted({-9.0, 9.0, *np.clip([-d / s - 8 / s, -d / s, -d / s + 8 / s], -9, 9)})
    expected = sum(
        quad(lambda u: norm.pdf(u) * norm.cdf(s * u + d) ** (N - 1), a, b, epsabs=1e-13, limit=400)[0]
        for a, b in itertools.pairwise(knots)
    )
    assert rollout.next_token_probability(*case) == pytest.approx(expected, abs=2e-11)


@pytest.mark.parametrize("case", CASES[:3])
def test_rho_against_a_monte_carlo_of_gaussians(case):
    mu_k, var_k, mu_o, var_o, N = case
    rng, draws = np.random.default_rng(0), 100_000
    correct = rng.normal(mu_k, np.sqrt(var_k), draws)
    largest = rng.normal(mu_o, np.sqrt(var_o), (draws, N - 1)).max(axis=1)
    won = np.mean(correct > largest)
    assert rollout.next_token_probability(*case) == pytest.approx(won, abs=4 * np.sqrt(won * (1 - won) / draws))


def test_rho_of_two_states_is_a_normal_tail():
    margin, var_k, var_o = np.array([-2.0, 0.0, 0.7]), 0.3, 0.9
    expected = norm.cdf(margin / np.sqrt(var_k + var_o))
    assert rollout.next_token_probability(margin, var_k, 0.0, var_o, 2) == pytest.approx(expected, abs=1e-12)


def test_rho_without_spread():
    assert rollout.next_token_probability([1.0, 0.0, -1.0], 0.0, 0.0, 0.0, 4) == pytest.approx([1, 0.25, 0])
    assert rollout.next_token_probability(1.0, 4.0, 0.0, 0.0, 4) == pytest.approx(norm.cdf(0.5), abs=1e-12)
    assert rollout.next_token_probability(1.0, 0.0, 0.0, 4.0, 4) == pytest.approx(norm.cdf(0.5) ** 3, abs=1e-12)


def test_product_form_solves_the_recursion_for_any_steps():
    rng = np.random.default_rng(3)
    right, recover = rng.uniform(size=(7, 6)), rng.uniform(size=(7, 6))
    assert rollout.rollout_product(right, recover) == pytest.approx(rollout.rollout_recursion(right, recover)[:, -1], abs=1e-14)


@pytest.mark.parametrize("rho", [0.05, 0.4, 0.93, 1.0])
def test_closed_form_is_the_recursion_with_equal_steps_and_blind_recovery(rho):
    N, L = 12, 9
    steps = np.full(L, rho)
    chain = rollout.rollout_recursion(steps, rollout.wrong_recovery(steps, N))
    assert rollout.rollout_probability(rho, N, L) == pytest.approx(chain[-1], abs=1e-14)


def test_recursion_is_the_law_of_a_two_state_chain():
    rng, right, recover = np.random.default_rng(8), np.array([0.9, 0.6, 0.8]), np.array([0.0, 0.3, 0.1])
    on, draws = np.ones(40_000, dtype=bool), 40_000
    for a, b in zip(right, recover, strict=True):
        on = rng.uniform(size=draws) < np.where(on, a, b)
    assert rollout.rollout_recursion(right, recover)[-1] == pytest.approx(on.mean(), abs=4 * 0.5 / np.sqrt(draws))


def test_crossing():
    alpha, curve = np.array([0.0, 1.0, 2.0]), np.array([0.6, 0.7, 0.8])
    assert rollout.crossing(alpha, curve) == 0.0
    assert np.isnan(rollout.crossing(alpha, curve, 0.9))
