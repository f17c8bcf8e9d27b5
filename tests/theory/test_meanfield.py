"""Mean logits and mean-field loss against brute force: every action sequence, every initial state."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import cotflow as cf
from cotflow.observables import order_parameters
from cotflow.task import chain
from cotflow.theory import meanfield
from cotflow.theory.overlaps import teacher_overlaps

N, L, D_G = 3, 3, 4


@pytest.fixture(scope="module")
def enumerated():
    """All logits z[context, t, r] of random weights and an arbitrary attention, with the correct next states."""
    cfg = cf.Config(N=N, L=L, d_g=D_G, n_train_seq=1, dtype="float64")
    permutations, m = cf.Task(cfg, 1).permutations, cf.Params.initial(cfg, 1).m
    rng = np.random.default_rng(5)
    pi = rng.dirichlet(np.ones(L), size=L)
    contexts = np.array([(*g, s) for g in itertools.product(range(D_G), repeat=L) for s in range(N)])
    actions, s0 = contexts[:, :L], contexts[:, L]
    states = chain(permutations, actions, s0)
    z = np.stack([sum(pi[t, j] * m[actions[:, j], :, states[:, t]] for j in range(L)) for t in range(L)], axis=1)
    return permutations, m, pi, z, states[:, 1:]


def test_mean_correct_logit_of_any_attention_is_the_average_over_all_contexts(enumerated):
    permutations, m, pi, z, targets = enumerated
    correct = np.take_along_axis(z, targets[..., None], axis=-1)[..., 0].mean(axis=0)
    predicted = meanfield.correct_logit_of(pi, teacher_overlaps(permutations, m))
    assert predicted == pytest.approx(correct, abs=1e-13)


def test_mean_correct_logit_follows_from_R_and_S_where_all_positions_attend_alike(enumerated):
    permutations, m, *_ = enumerated
    R, S = order_parameters(permutations, m)
    pi = np.full((L, L), 0.15) + 0.55 * np.eye(L)
    expected = meanfield.correct_logit_of(pi, teacher_overlaps(permutations, m))
    assert meanfield.mean_correct_logit(0.7, R, S, D_G) == pytest.approx(expected[0], abs=1e-14)


def test_mean_logit_vector_does_not_depend_on_attention_and_sums_to_zeta(enumerated):
    _, m, _, z, _ = enumerated
    for t in range(L):
        assert meanfield.mean_logit_vector(m) == pytest.approx(z[:, t].mean(axis=0), abs=1e-13)
    assert meanfield.mean_logit_vector(m).sum() == pytest.approx(meanfield.conserved_sum(m), abs=1e-13)


def test_mean_other_logit_is_the_average_over_all_wrong_states(enumerated):
    permutations, m, pi, z, targets = enumerated
    correct = np.take_along_axis(z, targets[..., None], axis=-1)[..., 0]
    others = (z.sum(axis=-1) - correct).mean() / (N - 1)
    mu_k = meanfield.correct_logit_of(pi, teacher_overlaps(permutations, m)).mean()
    assert meanfield.mean_other_logit(mu_k, N, meanfield.conserved_sum(m)) == pytest.approx(others, abs=1e-13)


@pytest.mark.parametrize("margin", [-3.0, 0.0, 2.0, 30.0])
def test_mean_field_loss_is_the_cross_entropy_of_two_kinds_of_logits(margin):
    mu_k, mu_o = 0.4 + margin, 0.4
    written_out = -mu_k + np.log(np.exp(mu_k) + (N - 1) * np.exp(mu_o))
    assert meanfield.mean_field_loss(margin, N) == pytest.approx(written_out, abs=1e-13)
    step = 1e-6
    slope = (meanfield.mean_field_loss(margin + step, N) - meanfield.mean_field_loss(margin - step, N)) / (2 * step)
    assert -slope == pytest.approx(meanfield.miss(margin, N), abs=1e-8)


def test_overflow_is_out_of_reach():
    assert meanfield.miss(np.array([-1e4, 1e4]), 32) == pytest.approx([1.0, 0.0], abs=1e-300)
    assert meanfield.mean_field_loss(1e4, 32) == 0.0
