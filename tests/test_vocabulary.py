"""Vocabularies: the random recipe, groups that are closed, Cayley tables, and files of permutations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from cotflow import Config, Task
from cotflow.vocabulary import group_elements, parity, random_permutations, read_permutations


def test_random_permutations_are_the_first_distinct_draws_of_the_generator():
    rng = np.random.default_rng(5)
    drawn = [tuple(rng.permutation(32)) for _ in range(32)]
    assert [tuple(row) for row in random_permutations(32, 32, np.random.default_rng(5))] == drawn


@pytest.mark.parametrize("seed", range(5))
def test_all_six_permutations_of_three_points_are_found(seed):
    """d_g = N! leaves no room for a repeat."""
    found = random_permutations(3, 6, np.random.default_rng(seed))
    assert {tuple(row) for row in found} == set(itertools.permutations(range(3)))


@pytest.mark.parametrize(
    ("name", "N", "order"),
    [
        ("symmetric", 4, 24),
        ("cyclic", 7, 7),
        ("dihedral", 5, 10),
        ("dihedral", 6, 12),
        ("alternating", 5, 60),
        ("symmetric", 2, 2),
    ],
)
def test_groups_are_closed_have_their_order_and_begin_with_the_identity(name, N, order):
    elements = group_elements(name, N)
    rows = {tuple(row) for row in elements}
    assert elements.shape == (order, N)
    assert len(rows) == order
    assert tuple(elements[0]) == tuple(range(N))
    assert {tuple(a[b]) for a in elements for b in elements} == rows


def test_alternating_group_is_even_and_its_complement_is_odd():
    even = {tuple(row) for row in group_elements("alternating", 4)}
    for row in group_elements("symmetric", 4):
        inversions = sum(row[i] > row[j] for i, j in itertools.combinations(range(4), 2))
        assert (tuple(row) in even) == (inversions % 2 == 0)
        assert parity(row) == inversions % 2


def test_a_cayley_table_makes_a_group_act_on_itself():
    """A5: 60 actions on 60 states, every action without fixed point but the identity."""
    a5 = group_elements("alternating", 5)
    number = {tuple(row): i for i, row in enumerate(a5)}
    table = np.array([[number[tuple(g[h])] for h in a5] for g in a5])
    cfg = Config(vocabulary=table, n_train_seq=50, n_test_seq=5)
    assert (cfg.N, cfg.d_g) == (60, 60)
    task = Task(cfg, 0)
    assert np.array_equal(task.permutations, table)
    fixed = (table == np.arange(60)).sum(axis=1)
    assert fixed[0] == 60
    assert not fixed[1:].any()
    product = task.train.states[:, 0]
    for t in range(cfg.L):  # following the chain is multiplying group elements
        product = np.array([number[tuple(a5[g][a5[h]])] for g, h in zip(task.train.actions[:, t], product, strict=True)])
    assert np.array_equal(product, task.train.states[:, -1])


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".txt"])
def test_permutations_come_from_a_file(tmp_path, suffix):
    rows = group_elements("dihedral", 4)
    path = tmp_path / f"table{suffix}"
    if suffix == ".npy":
        np.save(path, rows)
    else:
        np.savetxt(path, rows, fmt="%d", delimiter="," if suffix == ".csv" else " ")
    cfg = Config(vocabulary=str(path))
    assert cfg == Config(vocabulary=rows)
    assert (cfg.N, cfg.d_g) == (4, 8)
    assert np.array_equal(Task(cfg.replace(n_train_seq=5, n_test_seq=5), 3).permutations, rows)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([[0, 1], [1]], "different lengths"),
        ([0, 1, 2], r"shape \(3,\)"),
        ([[0.5, 1.0]], "whole numbers"),
        ([[1, 2]], "row 0 is not a permutation of 0 to 1; numbering starts at 0"),
        ([[0, 2]], "row 0 is not a permutation of 0 to 1$"),
        ([[0, float("nan")]], "whole numbers"),
        (np.zeros((0, 3)), "non-empty"),
    ],
)
def test_what_is_no_table_of_permutations_is_refused(source, message):
    with pytest.raises(ValueError, match=message):
        read_permutations(source)


def test_files_as_spreadsheets_write_them(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"\xef\xbb\xbfto_a,to_b,to_c\r\n1,2,0\r\n0,2,1\r\n")
    assert read_permutations(path) == ((1, 2, 0), (0, 2, 1))
    for content, told in (("0,,1\n", "could not convert"), ("0,1\n0\n", "different lengths"), ("", "non-empty")):
        path.write_text(content)
        with pytest.raises(ValueError, match=told):
            read_permutations(path)
    (tmp_path / "empty.npy").touch()
    with pytest.raises(ValueError, match="readable file"):
        read_permutations(tmp_path / "empty.npy")


def test_orders_grow_like_factorials():
    assert [len(group_elements("symmetric", N)) for N in range(2, 6)] == [math.factorial(N) for N in range(2, 6)]


def test_a_first_row_of_numbers_in_any_spelling_is_no_row_of_names(tmp_path):
    file = tmp_path / "v.txt"
    file.write_text("1E0 0 2\n0 2 1\n")
    assert read_permutations(file) == ((1, 0, 2), (0, 2, 1))
    file.write_text("# 2 permutations\n\nA B C\n1 0 2\n")
    assert read_permutations(file) == ((1, 0, 2),)
