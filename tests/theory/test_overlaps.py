"""Overlaps of random permutations."""

from __future__ import annotations

import numpy as np
import pytest

from cotflow.observables import order_parameters, teacher_overlap
from cotflow.theory.overlaps import tau_bar, tau_bar_enumerated, teacher_overlaps
from cotflow.vocabulary import random_permutations


@pytest.mark.parametrize("N", [2, 3, 4, 5])
def test_averaged_tau_by_formula_and_by_enumeration(N):
    assert tau_bar(N) == pytest.approx(tau_bar_enumerated(N), abs=1e-15)


def test_averaged_tau_is_the_mean_over_vocabularies():
    rng = np.random.default_rng(0)
    drawn = [teacher_overlap(random_permutations(4, 6, rng)) for _ in range(4000)]
    assert np.mean(drawn) == pytest.approx(tau_bar(4), abs=4 * np.std(drawn) / np.sqrt(4000))
    assert abs(tau_bar(4) - 1 / 4) > 0.02  # the correction to 1/N is what is tested


def test_correction_to_one_over_N_is_the_appendix_one():
    for N in (3, 6):
        factorial = float(np.prod(np.arange(1, N + 1)))
        assert tau_bar(N) - 1 / N == pytest.approx(-(1 - 1 / N) / (factorial - 1), abs=1e-15)


def test_overlap_matrix_holds_R_and_S():
    rng = np.random.default_rng(1)
    permutations, m = random_permutations(5, 7, rng), rng.normal(size=(7, 5, 5))
    overlaps = teacher_overlaps(permutations, m)
    R, S = order_parameters(permutations, m)
    assert np.trace(overlaps) / 7 == pytest.approx(R, abs=1e-14)
    assert (overlaps.sum() - np.trace(overlaps)) / 42 == pytest.approx(S, abs=1e-14)
