"""Tier 3: limits in which it is exact, its statistics against enumeration, its invariants."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import cotflow as cf
import oracles
from cotflow.task import Split, chain
from cotflow.theory import column
from cotflow.theory.column import logit_statistics
from cotflow.theory.column_equations import Column, columns, matrices, two_point_rule
from cotflow.theory.quenched import Quenched
from cotflow.theory.start import Start

CFG = cf.Config(N=3, L=3, d_g=3, d_h=6, n_train_seq=1, dtype="float64")
SMALL = cf.Config(N=8, L=5, d_g=6, d_h=16, n_train_seq=512, train_epochs=960, eval_every=24)


def every_context(cfg, permutations):
    """All action sequences from all first states."""
    rows = np.array([(*g, s) for g in itertools.product(range(cfg.d_g), repeat=cfg.L) for s in range(cfg.N)])
    return Split(rows[:, :-1], chain(permutations, rows[:, :-1], rows[:, -1]))


def flow(cfg, params, split):
    """dW/dalpha of gradient flow on a split's exact loss, as (w_q, w_k, m)."""
    gradient = oracles.loss_and_gradient(cfg, params, split)[1]
    return [-cfg.lr * cfg.d_g * cfg.N * np.asarray(x) for x in (gradient.w_q, gradient.w_k, gradient.m)]


def predicted(cfg, start):
    theory = Column.of(cfg, start)
    w_q, w_k, V = theory.unpack(theory(0.0, theory.pack(start.params.w_q, start.params.w_k, start.params.m)))
    return [w_q, w_k, matrices(V)]


def test_one_step_chains_are_described_exactly_for_any_training_set():
    """With L = 1 attention has nothing to average out: the theory is the training set's own gradient flow."""
    cfg = CFG.replace(L=1, N=5, d_g=4, n_train_seq=60)
    task, start = cf.Task(cfg, 2), Start.of(cfg, 2)
    assert predicted(cfg, start)[2] == pytest.approx(flow(cfg, start.params, task.train)[2], abs=1e-13)


def test_small_weights_are_described_to_first_order():
    """Against all 81 contexts the errors of dM fall with the square of M's scale, those of dW with its cube."""
    start = Start.of(CFG, 4, data="population")
    errors = []
    for scale in (0.2, 0.1, 0.05):
        params = cf.Params(start.params.w_q, start.params.w_k, scale * start.params.m)
        exact = flow(CFG, params, every_context(CFG, start.permutations))
        ours = predicted(CFG, Start(start.permutations, params, start.share))
        errors.append([abs(a - b).max() for a, b in zip(ours, exact, strict=True)])
        assert errors[-1][2] < scale * abs(exact[2]).max()
    order = np.log2(np.array(errors)[:-1] / np.array(errors)[1:])
    assert (order > (2.8, 2.8, 1.8)).all()


def test_attention_that_is_certain_is_described_exactly():
    """Where each position attends to its own action alone, the columns decouple: all 81 contexts, any weights."""
    start = Start.of(CFG, 1, data="population")
    w_q, w_k = strong_retrieval(CFG)
    params = cf.Params(w_q, w_k, 2 * start.params.m)
    exact = flow(CFG, params, every_context(CFG, start.permutations))[2]
    ours = predicted(CFG, Start(start.permutations, params, start.share))[2]
    assert ours == pytest.approx(exact, abs=1e-6)


def strong_retrieval(cfg):
    teacher = cf.Params.teacher(cfg, cf.Task(cfg, 0), margin=40.0)
    return teacher.w_q, teacher.w_k


def test_attention_starts_as_the_training_set_asks():
    """With data="training" the first dW/dalpha is the training set's own, 400 sequences, whatever the theory drops."""
    cfg = SMALL.replace(n_train_seq=400, dtype="float64")
    start, task = Start.of(cfg, 2), cf.Task(cfg, 2)
    exact = np.concatenate(flow(cfg, start.params, task.train)[:2])
    theory = Quenched.of(cfg, start)
    assert np.concatenate(predicted(cfg, start)[:2]) == pytest.approx(exact, abs=1e-12)
    assert theory(0.0, theory.begin(start))[:-3] == pytest.approx(exact, abs=1e-12)
    blind = np.concatenate(predicted(cfg, Start.of(cfg, 2, data="population"))[:2])
    assert abs(blind - exact).max() > 0.1 * abs(exact).max()


def test_logit_statistics_are_those_of_all_contexts():
    rng = np.random.default_rng(0)
    permutations = cf.Task(CFG, 5).permutations
    pi, m = rng.dirichlet(np.ones(CFG.L), size=CFG.L), rng.normal(size=(CFG.d_g, CFG.N, CFG.N))
    measured = oracles.statistics(pi, m, every_context(CFG, permutations))
    ours = logit_statistics(permutations, pi, columns(m))._asdict()
    for name, value in ours.items():
        assert value == pytest.approx(measured[name], abs=1e-12), name


def test_two_point_rule_has_the_moments_of_the_positions():
    p = np.random.default_rng(2).uniform(size=9) ** 3
    nodes, weights = two_point_rule(p)
    for power in range(4):
        assert weights @ nodes**power == pytest.approx(np.mean(p**power), abs=1e-14)
    assert len(two_point_rule(np.full(4, 0.3))[0]) == 1


def test_right_hand_side_keeps_the_invariants_of_gradient_flow():
    start = Start.of(SMALL, 1)
    dq, dk, dm = predicted(SMALL, start)
    assert dm.sum(axis=1) == pytest.approx(0, abs=1e-12)
    per_plane = (start.params.w_q * dq - start.params.w_k * dk).reshape(-1, 2).sum(axis=1)
    assert per_plane == pytest.approx(0, abs=1e-12)


def test_what_is_frozen_stays():
    still = column(SMALL.replace(freeze="attention"), 0, contexts=0)
    assert (still.final_w_q == still.initial_w_q).all()
    assert float(still.R[-1]) > 1
    untaught = column(SMALL.replace(freeze="logic"), 0, contexts=0)
    assert (untaught.final_m == untaught.initial_m).all()
    assert np.ptp(untaught.A.values) > 1e-3


def test_trajectory_carries_its_final_weights():
    th = column(SMALL, 0, contexts=256)
    assert float(th.rollout_accuracy[0]) < 0.5
    assert float(th.rollout_accuracy[-1]) == 1
    onwards = column(SMALL, 0, params=cf.Params.of(th), contexts=0)
    for name in ("A", "R", "S", "mu_k", "var_o"):
        assert float(onwards[name][0]) == pytest.approx(float(th[name][-1]), abs=1e-5)
    assert "loss" not in onwards
    states = cf.rollout(SMALL, cf.Params.of(th), np.zeros((1, 5), dtype=int), np.array([0]))
    assert (states[0, 1:] == cf.Task(SMALL, 0).sequences(np.zeros((1, 5), dtype=int), np.array([0])).targets[0]).all()


def test_an_infinite_set_knows_nothing_of_the_training_set():
    fewer = SMALL.replace(n_train_seq=32)
    assert (column(fewer, 0, data="population", contexts=0).A == column(SMALL, 0, data="population", contexts=0).A).all()
    assert float(abs(column(fewer, 0, contexts=0).A - column(SMALL, 0, contexts=0).A).max()) > 1e-3
