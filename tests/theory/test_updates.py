"""One explicit step of gradient descent on the mean-field loss."""

from __future__ import annotations

import numpy as np
import pytest

from cotflow.observables import order_parameters, teacher_overlap
from cotflow.theory import meanfield, updates
from cotflow.vocabulary import random_permutations

N, D_G, A, ETA = 5, 6, 0.37, 0.8


@pytest.fixture(scope="module")
def student():
    rng = np.random.default_rng(2)
    return random_permutations(N, D_G, rng), rng.uniform(-1, 1, (D_G, N, N))


def loss(m, permutations):
    """The mean-field loss of matrices m, written out."""
    R, S = order_parameters(permutations, m)
    return meanfield.mean_field_loss(meanfield.logit_margin(A, R, S, N, D_G, meanfield.conserved_sum(m)), N)


def numerical_gradient(function, m, step=1e-5):
    gradient = np.zeros_like(m)
    for index in np.ndindex(m.shape):
        up, down = m.copy(), m.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (function(up) - function(down)) / (2 * step)
    return gradient


def test_derivatives_of_R_S_and_the_mean_logits(student):
    permutations, m = student

    def mu_k(m):
        return meanfield.mean_correct_logit(A, *order_parameters(permutations, m), D_G)

    def mu_o(m):
        return meanfield.mean_other_logit(mu_k(m), N, meanfield.conserved_sum(m))

    for analytic, function in [
        (updates.dR_dm(permutations), lambda m: order_parameters(permutations, m)[0]),
        (updates.dS_dm(permutations), lambda m: order_parameters(permutations, m)[1]),
        (updates.dmu_k_dm(A, permutations), mu_k),
        (updates.dmu_o_dm(A, permutations), mu_o),
    ]:
        assert analytic == pytest.approx(numerical_gradient(function, m), abs=1e-9)


def test_step_of_the_matrices_is_gradient_descent_on_the_mean_field_loss(student):
    permutations, m = student
    R, S = order_parameters(permutations, m)
    step = updates.delta_m(A, R, S, ETA, permutations, meanfield.conserved_sum(m))
    assert step == pytest.approx(-ETA * numerical_gradient(lambda m: loss(m, permutations), m), abs=1e-8)
    assert step.sum(axis=1) == pytest.approx(0, abs=1e-15)  # column sums, and zeta with them, are conserved


def test_steps_of_R_and_S_are_those_of_the_stepped_matrices(student):
    permutations, m = student
    (R, S), zeta, tau = order_parameters(permutations, m), meanfield.conserved_sum(m), teacher_overlap(permutations)
    stepped = order_parameters(permutations, m + updates.delta_m(A, R, S, ETA, permutations, zeta))
    assert stepped[0] - R == pytest.approx(updates.delta_R(A, R, S, ETA, N, D_G, tau, zeta), abs=1e-14)
    assert stepped[1] - S == pytest.approx(updates.delta_S(A, R, S, ETA, N, D_G, tau, zeta), abs=1e-14)
    assert abs(tau - 1 / N) > 1e-3  # a vocabulary in which tau matters


def test_at_the_averaged_overlap_the_rates_are_the_papers():
    R, S = updates.overlap_rates(A, N, D_G, 1 / N)
    assert pytest.approx(A + (1 - A) / D_G, abs=1e-15) == R
    assert pytest.approx((1 - A) / D_G, abs=1e-15) == S
