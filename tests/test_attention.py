"""Closed-form RoPE attention and its pull-back against explicit rotation matrices, and against autograd."""

from __future__ import annotations

import numpy as np
import pytest

import oracles
from cotflow import Config
from cotflow.attention import attention, frequencies, pull_back

LAWS = ("power-2pi", "power", "linear")
SIZES = [(1, 2), (2, 4), (5, 10), (9, 16)]


def case(L: int, d_h: int, law: str) -> tuple[Config, np.ndarray, np.ndarray, np.ndarray]:
    cfg = Config(N=4, L=L, d_g=3, d_h=d_h, rope_law=law, rope_theta=100.0)  # type: ignore[arg-type]
    rng = np.random.default_rng([L, d_h, LAWS.index(law)])
    return cfg, rng.standard_normal(d_h), rng.standard_normal(d_h), rng.standard_normal((L, L))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("L", "d_h"), SIZES)
def test_attention_and_pull_back_are_those_of_explicit_rotations(L, d_h, law):
    cfg, w_q, w_k, d_pi = case(L, d_h, law)
    pi = attention(cfg, w_q, w_k)
    np.testing.assert_allclose(pi, oracles.attention(cfg, w_q, w_k), rtol=1e-12)
    for found, expected in zip(pull_back(cfg, w_q, w_k, pi, d_pi), oracles.attention_pull_back(cfg, w_q, w_k, d_pi), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("L", "d_h"), SIZES)
def test_pull_back_is_what_autograd_finds(L, d_h, law):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    cfg, w_q, w_k, d_pi = case(L, d_h, law)
    q, k = (torch.tensor(w, requires_grad=True) for w in (w_q, w_k))
    planes = [torch.stack([w[0::2], w[1::2]]) for w in (q, k)]
    i, j = torch.arange(L + 1, 2 * L + 1), torch.arange(1, L + 1)
    omega = torch.from_numpy(frequencies(cfg))

    def turned(w, position):
        c, s = torch.cos(position[:, None] * omega), torch.sin(position[:, None] * omega)
        return torch.cat([c * w[0] - s * w[1], s * w[0] + c * w[1]], dim=1)

    pi = torch.softmax(turned(planes[0], i) @ turned(planes[1], j).T / d_h**0.5, dim=-1)
    (pi * torch.from_numpy(d_pi)).sum().backward()
    np.testing.assert_allclose(attention(cfg, w_q, w_k), pi.detach().numpy(), rtol=1e-12)
    for found, expected in zip(pull_back(cfg, w_q, w_k, pi.detach().numpy(), d_pi), (q.grad, k.grad), strict=True):
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-10, atol=1e-13)


def test_frequencies_of_the_papers_tables():
    """Main text 2π θ^(-2n/d_h), robustness table without 2π, linear equally spaced."""
    main, other = Config.preset("main"), Config.preset("robustness")
    assert frequencies(main)[[0, 32]] == pytest.approx([2 * np.pi, 2 * np.pi * 1e4**-0.5])
    assert frequencies(other) == pytest.approx([1.0, 0.1, 0.01, 0.001])
    linear = frequencies(main.replace(rope_law="linear"))
    assert np.diff(linear) == pytest.approx(linear[0])


def test_rows_are_distributions_and_a_single_action_gets_all_attention():
    cfg, w_q, w_k, _ = case(9, 16, "power")
    pi = attention(cfg, 300 * w_q, 300 * w_k)
    np.testing.assert_allclose(pi.sum(axis=1), 1.0, rtol=1e-12)
    assert np.isfinite(pi).all()
    one, w_q, w_k, d_pi = case(1, 2, "power")
    assert attention(one, w_q, w_k) == pytest.approx(1.0)
    assert pull_back(one, w_q, w_k, np.ones((1, 1)), d_pi)[0] == pytest.approx(0.0)


def test_scores_depend_on_the_offset_alone():
    cfg, w_q, w_k, _ = case(5, 10, "power-2pi")
    log_pi = np.log(attention(cfg, w_q, w_k))
    steps = np.diff(log_pi, axis=1)  # l[D + 1] - l[D], the same wherever j - t is
    for offset in range(-3, 3):
        diagonal = np.diag(steps, offset)
        np.testing.assert_allclose(diagonal, diagonal[0], rtol=1e-9)
