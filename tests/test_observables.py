"""Order parameters against their definitions as traces."""

from __future__ import annotations

import numpy as np
import pytest

import cotflow as cf
import oracles
from cotflow.observables import order_parameters, teacher_overlap
from cotflow.vocabulary import group_elements


@pytest.mark.parametrize(("N", "d_g"), [(2, 2), (3, 6), (7, 5), (16, 16)])
def test_R_S_and_tau_are_the_traces_of_their_definitions(N, d_g):
    cfg = cf.Config(N=N, d_g=d_g, n_train_seq=1)
    task, m = cf.Task(cfg, 4), cf.Params.initial(cfg.replace(dtype="float64"), 4).m
    expected = oracles.order_parameters(np.eye(cfg.L), m, task.permutations)
    R, S = order_parameters(task.permutations, m)
    assert pytest.approx(expected["R"], abs=1e-13) == R
    assert pytest.approx(expected["S"], abs=1e-13) == S
    assert teacher_overlap(task.permutations) == pytest.approx(oracles.teacher_overlap(task.permutations), abs=1e-14)


def test_the_teacher_has_R_one_and_S_tau():
    task = cf.Task(cf.Config(n_train_seq=1), 0)
    R, S = order_parameters(task.permutations, task.teacher)
    assert R == 1
    assert pytest.approx(teacher_overlap(task.permutations), abs=1e-15) == S


def test_a_large_vocabulary_needs_no_table_of_pairs():
    """All of S_8, 40,320 permutations: 1.6e9 pairs, each of which agrees on one state of eight on average."""
    permutations = group_elements("symmetric", 8)
    d_g = len(permutations)
    expected = (d_g / 8 - 1) / (d_g - 1)
    assert teacher_overlap(permutations) == pytest.approx(expected, rel=1e-12)
