"""The gradient of A, and the constant that closes it."""

from __future__ import annotations

import numpy as np
import pytest

import cotflow as cf
from cotflow.attention import attention, frequencies, pull_back
from cotflow.theory import retrieval

LAWS = ("power-2pi", "power", "linear")


def weights(cfg, seed=0):
    p = cf.Params.initial(cfg.replace(dtype="float64"), seed)
    return p.w_q, p.w_k


@pytest.mark.parametrize("law", LAWS)
def test_gradient_of_A_agrees_with_autograd(law):
    torch = pytest.importorskip("torch")
    cfg = cf.Config(L=5, d_h=6, rope_law=law, n_train_seq=1)
    omega = frequencies(cfg)
    w_q, w_k = (torch.tensor(w, requires_grad=True) for w in weights(cfg, 3))
    score = torch.stack(
        [
            torch.stack([w_q @ torch.tensor(retrieval.rotation(omega, k - t - cfg.L)) @ w_k for k in range(cfg.L)])
            for t in range(cfg.L)
        ]
    )
    A = torch.softmax(score / np.sqrt(cfg.d_h), dim=1).diagonal().mean()
    A.backward()
    ours = retrieval.gradient_of_A(attention(cfg, *weights(cfg, 3)), *weights(cfg, 3), omega)
    assert w_q.grad is not None
    assert w_k.grad is not None
    assert ours[0] == pytest.approx(w_q.grad.numpy(), abs=1e-14)
    assert ours[1] == pytest.approx(w_k.grad.numpy(), abs=1e-14)


def test_gradient_of_A_is_the_pull_back_of_the_diagonal():
    cfg = cf.Config(L=7, d_h=10, n_train_seq=1)
    w_q, w_k = weights(cfg, 1)
    pi = attention(cfg, w_q, w_k)
    expected = pull_back(cfg, w_q, w_k, pi, np.eye(cfg.L) / cfg.L)
    assert np.concatenate(retrieval.gradient_of_A(pi, w_q, w_k, frequencies(cfg))) == pytest.approx(
        np.concatenate(expected), abs=1e-15
    )


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("A", [0.05, 1 / 6, 0.7])
def test_c_of_A_is_the_squared_gradient_under_the_uniform_ansatz(law, A):
    cfg = cf.Config(N=5, L=6, d_g=4, d_h=8, rope_law=law, n_train_seq=1)
    w_q, w_k = weights(cfg, 2)
    omega = frequencies(cfg)
    gradient = np.concatenate(retrieval.gradient_of_A(retrieval.uniform_off_diagonal(A, cfg.L), w_q, w_k, omega))
    expected = cfg.d_g * cfg.N * gradient @ gradient
    assert retrieval.c_of_A(A, w_q, w_k, omega, cfg.N, cfg.L, cfg.d_g) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("law", LAWS)
def test_lambda_is_the_mean_rotation_over_different_positions(law):
    cfg = cf.Config(L=6, d_h=8, rope_law=law, n_train_seq=1)
    omega, L = frequencies(cfg), cfg.L
    lags = [i - j for i in range(L) for j in range(L) if i != j]
    mean = np.mean([retrieval.rotation(omega, lag) for lag in lags], axis=0)
    assert np.diag(np.repeat(retrieval.lag_eigenvalues(omega, L), 2)) == pytest.approx(mean, abs=1e-13)


@pytest.mark.parametrize("law", LAWS)
def test_c_omega_is_the_average_over_initial_weights(law):
    cfg = cf.Config(N=8, L=5, d_g=6, d_h=16, rope_law=law, n_train_seq=1)
    omega = frequencies(cfg)
    drawn = [retrieval.c_omega_of(*weights(cfg, seed), omega, cfg.N, cfg.L, cfg.d_g) for seed in range(400)]
    closed = retrieval.c_omega(cfg.N, cfg.L, cfg.d_g, cfg.d_h, omega, cfg.init_variance)
    assert np.mean(drawn) == pytest.approx(closed, abs=4 * np.std(drawn) / 20)
    assert np.std(drawn) / 20 < 0.03 * closed


@pytest.mark.parametrize(("preset", "value"), [("main", 2.28348747), ("robustness", 0.98982728)])
def test_c_omega_of_the_papers_tables(preset, value):
    cfg = cf.Config.preset(preset)
    assert retrieval.c_omega(cfg.N, cfg.L, cfg.d_g, cfg.d_h, frequencies(cfg), cfg.init_variance) == pytest.approx(
        value, abs=1e-7
    )


def test_planes_that_turn_by_whole_circles_carry_no_position():
    for omega in (0.0, 2 * np.pi, -4 * np.pi, 1e-12, 2 * np.pi + 1e-13):
        assert retrieval.c_omega(4, 5, 3, 2, np.array([omega]), 1 / 3) == pytest.approx(0.0, abs=1e-12)
    near = retrieval.coherence(np.array([1e-7, 1e-6, 1e-3]), 9)
    assert near == pytest.approx([1.0, 1.0, 1 - 1e-6 * (81 - 1) / 12], abs=1e-10)


def test_initial_concentration_is_second_order_in_the_scores():
    cfg = cf.Config(L=8, d_h=32, n_train_seq=1)
    for variance, tolerance in ((0.05, 0.01), (0.1, 0.02)):  # relative to the effect itself
        q = []
        for seed in range(600):
            w_q, w_k = (w * np.sqrt(3 * variance) for w in weights(cfg, seed))
            q.append((attention(cfg, w_q, w_k) ** 2).sum(axis=1).mean())
        effect = retrieval.initial_concentration(frequencies(cfg), cfg.L, variance) - 1 / cfg.L
        error = 4 * np.std(q) / np.sqrt(600)
        assert np.mean(q) - 1 / cfg.L == pytest.approx(effect, abs=tolerance * effect + error)
