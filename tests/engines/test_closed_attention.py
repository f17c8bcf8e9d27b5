"""Attention in closed form: keys and queries take every step, only the forces on them are foreseen."""

from __future__ import annotations

import numpy as np
import pytest

import cotflow as cf
import oracles
from cotflow.attention import attention, pull_back
from cotflow.engines import make_engine
from cotflow.engines.adams import Adams
from cotflow.engines.curvature import hessian
from cotflow.engines.laws import Plain
from cotflow.engines.quadrature import SUM
from cotflow.gradients import backend


@pytest.fixture(scope="module")
def cfg() -> cf.Config:
    return cf.Config.preset("smoke", n_train_seq=256, n_test_seq=64, train_epochs=800, dtype="float64")


def leap_of(cfg: cf.Config, **changes):
    cfg = cfg.replace(**changes)
    return make_engine("leap", cfg, cf.Task(cfg, 0), cf.Params.initial(cfg, 0), backend("fused", 1))


def test_signal_and_force_are_loss_and_gradient(cfg):
    leap = leap_of(cfg, weight_decay=0.01)
    task, params, law = leap.task, leap.params, leap.adams.law
    measured, g = law.signal(params.flatten(), 0)
    loss, gradient = oracles.loss_and_gradient(cfg, params, task.train)
    x = params.flatten()
    assert measured == pytest.approx(loss, rel=1e-12)
    assert np.abs(law.force(x, g) + gradient.flatten() + 0.01 * x).max() < 1e-14


def test_keys_and_queries_take_single_steps_under_the_foreseen_force(cfg):
    """Against the pull-back applied in a loop to Newton's polynomial plus H pi, with weight decay."""
    law, x = leap_of(cfg, weight_decay=0.01).adams.law, leap_of(cfg).params.flatten()
    rng, L, nodes = np.random.default_rng(0), cfg.L, np.array([7.0, 3.0, -4.0])
    table = rng.normal(size=(3, len(law.signal(x, 0)[1]))) * np.array([1.0, 0.1, 0.003])[:, None]
    d_pi, pis, on_m = (part.reshape(3, -1) for part in law._parts(table))
    H = hessian(attention(cfg, x[: cfg.d_h], x[cfg.d_h : 2 * cfg.d_h]), law._matrices(x))
    w_q, w_k, m = x[: cfg.d_h].copy(), x[cfg.d_h : 2 * cfg.d_h].copy(), x[2 * cfg.d_h :].copy()
    for k in range(7, 27):
        newton = np.array([1, k - nodes[0], (k - nodes[0]) * (k - nodes[1])])
        pi = attention(cfg, w_q, w_k)
        bend = np.einsum("tji,ti->tj", H, pi - (newton @ pis).reshape(L, L))
        d_q, d_k = pull_back(cfg, w_q, w_k, pi, (newton @ d_pi).reshape(L, L) + bend)
        w_q, w_k = w_q - cfg.lr * (d_q + 0.01 * w_q), w_k - cfg.lr * (d_k + 0.01 * w_k)
        m += cfg.lr * (newton @ on_m)
    direct = law.carry(x, nodes, table, 7, 20)
    assert np.abs(direct - np.concatenate([w_q, w_k, m])).max() < 1e-12
    # on the way there, the same bits as in one go
    fresh = leap_of(cfg, weight_decay=0.01).adams.law
    for h in (0, 6, 13):
        fresh.carry(x, nodes, table, 7, h)
    assert fresh.carry(x, nodes, table, 7, 20).tobytes() == direct.tobytes()


def test_under_the_flow_keys_and_queries_take_infinitely_many_steps(cfg):
    """Steps a thousand times smaller, whose sum over m is the integral, end where the flow ends."""
    start = cf.Params.initial(cfg, 0)
    small = cfg.replace(lr=cfg.lr / 1000)
    flow, leap = (
        make_engine(name, c, cf.Task(c, 0), start, backend("fused", 1), rtol=1e-8, atol=1e-8).adams.law
        for name, c in (("flow", cfg), ("leap", small))
    )
    x, nodes = start.flatten(), np.array([4.0, 1.0])
    table = np.random.default_rng(0).normal(size=(2, len(flow.signal(x, 0)[1]))) * np.array([1.0, 0.1])[:, None]
    shrunk = table * np.array([1.0, 1e-3])[:, None]
    assert np.abs(flow.carry(x, nodes, table, 4, 6.0) - leap.carry(x, 1000 * nodes, shrunk, 4000, 6000)).max() < 2e-3
    assert np.abs(flow.carry(x, nodes, table, 4, 6.0) - x).max() > 0.5


def test_the_expected_curvature_is_that_of_a_large_data_set():
    """H against differences of dloss/dpi on 20,000 sequences, in the middle of training and in every direction of one row."""
    cfg = cf.Config.preset("smoke", n_train_seq=20_000, n_test_seq=1, dtype="float64")
    task, made = cf.Task(cfg, 0), backend("fused", 1)
    params = cf.Params.initial(cfg, 0)
    m = params.m + 1.5 * task.teacher
    pi = 0.5 * np.eye(cfg.L) + 0.5 * attention(cfg, params.w_q, params.w_k)
    H, step, t = hessian(pi, m), 1e-5, 2
    measured = np.empty((cfg.L, cfg.L))
    for j in range(cfg.L):
        up, down = pi.copy(), pi.copy()
        up[t, j] += step
        down[t, j] -= step
        measured[j] = (made.logic_gradient(up, m, task.train)[1] - made.logic_gradient(down, m, task.train)[1])[t] / (2 * step)
    assert np.abs(measured - H[t]).max() < 0.15 * np.abs(measured).max()


def test_it_needs_far_fewer_gradients_than_interpolating_the_force_itself(cfg):
    def errors(law) -> tuple[float, int]:
        leap = leap_of(cfg)
        if law is not None:
            leap.adams = Adams(law(leap), leap.params.flatten(), cfg.train_epochs, leap.adams.blocks, 3e-6, 3e-6)
        A = []
        for epoch in cfg.eval_epochs:
            while leap.epoch < epoch:
                leap.advance()
            params, _ = leap.at(epoch)
            A.append(np.trace(attention(cfg, params.w_q, params.w_k)) / cfg.L)
        return np.abs(np.array(A) - exact).max(), leap.gradients

    exact = cf.simulate(cfg, 0, engine="steps", threads=1).A.values
    error, gradients = errors(None)
    plain_error, plain_gradients = errors(lambda leap: Plain(leap._force, cfg.lr, SUM))
    assert error < 1e-5
    assert plain_error < 1e-5
    assert gradients < 0.85 * plain_gradients
