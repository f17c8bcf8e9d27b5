"""The task: chains obey their permutations, marginals are uniform, a seed means the same everywhere."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from cotflow import Config, Task
from cotflow.task import tokens

sizes = st.tuples(st.integers(2, 9), st.integers(1, 6), st.integers(1, 12)).filter(lambda x: x[2] <= [2, 6, 24][min(x[0], 4) - 2])


def task_of(N: int, L: int, d_g: int, seed: int, n: int = 20) -> Task:
    return Task(Config(N=N, L=L, d_g=d_g, d_h=4, n_train_seq=n, n_test_seq=n), seed)


@given(sizes, st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_every_chain_obeys_its_permutations(size, seed):
    task = task_of(*size, seed)
    for split in (task.train, task.test):
        for actions, states in zip(split.actions, split.states, strict=True):
            for t, g in enumerate(actions):
                assert states[t + 1] == task.permutations[g, states[t]]
        assert np.array_equal(split.inputs[:, 1:], split.targets[:, :-1])


@given(sizes, st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_permutations_are_distinct_permutations_and_the_teacher_applies_them(size, seed):
    task = task_of(*size, seed)
    N, _, d_g = size
    assert np.array_equal(np.sort(task.permutations, axis=1), np.tile(np.arange(N), (d_g, 1)))
    assert len(np.unique(task.permutations, axis=0)) == d_g
    assert np.array_equal(task.teacher @ np.arange(N), np.argsort(task.permutations, axis=1))
    one_hot = np.eye(N)
    for a in range(d_g):
        for s in range(N):
            assert np.array_equal(task.teacher[a] @ one_hot[s], one_hot[task.permutations[a, s]])


@given(sizes, st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_same_seed_same_bits_and_another_seed_others(size, seed):
    one, two = task_of(*size, seed), task_of(*size, seed)
    for split in ("train", "test"):
        assert np.array_equal(getattr(one, split).actions, getattr(two, split).actions)
        assert np.array_equal(getattr(one, split).states, getattr(two, split).states)
    other = task_of(*size, seed + 1, n=200)
    assert not np.array_equal(task_of(*size, seed, n=200).train.states, other.train.states)


def test_the_recipe_is_pinned():
    """One stream per seed: permutations, train actions, train s_0, test actions, test s_0."""
    cfg = Config(N=6, L=4, d_g=5, d_h=4, n_train_seq=30, n_test_seq=7)
    rng = np.random.default_rng(11)
    permutations = np.array([rng.permutation(6) for _ in range(5)])
    drawn = [rng.integers(0, high, size) for high, size in [(5, (30, 4)), (6, 30), (5, (7, 4)), (6, 7)]]
    task = Task(cfg, 11)
    assert np.array_equal(task.permutations, permutations)
    found = [task.train.actions, task.train.states[:, 0], task.test.actions, task.test.states[:, 0]]
    assert all(np.array_equal(a, b) for a, b in zip(drawn, found, strict=True))


def test_a_larger_test_set_leaves_the_training_set_alone():
    cfg = Config(N=6, L=4, d_g=5, d_h=4, n_train_seq=30, n_test_seq=7)
    assert np.array_equal(Task(cfg, 1).train.states, Task(cfg.replace(n_test_seq=70), 1).train.states)


def test_actions_and_states_are_uniform_at_every_position():
    """Permutations preserve the uniform distribution: chi-square over all positions, at a level of 1e-4 each."""
    task = task_of(10, 5, 7, seed=0, n=20_000)
    for t in range(5):
        assert chisquare(np.bincount(task.train.actions[:, t], minlength=7)).pvalue > 1e-4
    for t in range(6):
        assert chisquare(np.bincount(task.train.states[:, t], minlength=10)).pvalue > 1e-4
    pairs = task.train.actions[:, 0] * 10 + task.train.states[:, 0]
    assert chisquare(np.bincount(pairs, minlength=70)).pvalue > 1e-4


def test_token_sequences_hold_actions_then_states():
    task = task_of(5, 3, 4, seed=2)
    x = tokens(task.train, 4)
    assert x.shape == (20, 7)
    assert np.array_equal(x[:, :3], task.train.actions)
    assert np.array_equal(x[:, 3:] - 4, task.train.states)


def test_ones_own_sequences_follow_the_tasks_permutations():
    task = task_of(5, 3, 4, seed=2)
    split = task.sequences(np.array([[0, 1, 2]]), np.array([4]))
    p = task.permutations
    assert split.states.tolist() == [[4, p[0, 4], p[1, p[0, 4]], p[2, p[1, p[0, 4]]]]]


def test_what_is_prepared_for_a_split_does_not_travel_with_it():
    split = task_of(5, 3, 4, seed=2).train
    split.prepared["large"] = object
    again = pickle.loads(pickle.dumps(split))
    assert again.prepared == {}
    assert np.array_equal(again.states, split.states)


@pytest.mark.parametrize("seed", [-1, 1.5, "0", True])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(ValueError, match="seed ="):
        Task(Config.preset("smoke"), seed)
