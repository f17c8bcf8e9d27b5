"""Tier 2: its response functions, its equations, and how closely it follows simulated seeds."""

from __future__ import annotations

import numpy as np
import pytest

import cotflow as cf
from cotflow.theory import meanfield, quenched
from cotflow.theory.quenched import Quenched, response_at_the_mean, response_under_noise
from cotflow.theory.start import Start

CFG = cf.Config(N=8, L=5, d_g=6, d_h=16, n_train_seq=512, train_epochs=960, eval_every=24)


def test_response_is_the_softmax_of_noisy_logits():
    """Monte Carlo over 200,000 draws of N = 64 logits; what is left is of order 1/N."""
    N, variance = 64, 0.3
    rng = np.random.default_rng(0)
    margins = np.array([-1.0, 2.0, 4.0, 7.0])
    noise = rng.uniform(-1, 1, (200_000, N)) * np.sqrt(3 * variance)
    measured = []
    for margin in margins:
        z = noise.copy()
        z[:, 0] += margin
        p = np.exp(z)
        p /= p.sum(axis=1, keepdims=True)
        measured.append((1 - p[:, 0].mean(), (p * (1 - p)).sum(axis=1).mean(), -np.log(p[:, 0]).mean()))
    predicted = np.array(response_under_noise(margins, np.full(4, variance), N)).T
    assert predicted == pytest.approx(np.array(measured), rel=0.01)
    assert abs(np.array(response_at_the_mean(margins, N)).T - measured).max() > 0.02  # the average over noise matters


def test_response_without_noise_is_the_softmax_at_the_mean_logits():
    margin, N = np.linspace(-5, 30, 8), 5
    z = np.zeros((8, N))
    z[:, 0] = margin
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    expected = [1 - p[:, 0], (p * (1 - p)).sum(axis=1), meanfield.mean_field_loss(margin, N)]
    for response in (response_at_the_mean(margin, N), response_under_noise(margin, np.zeros(8), N)):
        assert np.array(response) == pytest.approx(np.array(expected), abs=1e-12)


def test_attention_descends_the_loss_of_mean_logits_and_second_order_noise():
    """Without the noise average, dW/dalpha = -eta d_g N grad [l(mean logits) + v h o2 / 2], h held fixed."""
    start = Start.of(CFG, 3, data="population")
    theory = Quenched.of(CFG, start, noise="mean")
    y = theory.pack(start.params.w_q, start.params.w_k, R=0.8, S=0.1, v=0.25)
    h = theory.response(0.0, y, theory.attention(y)).h

    def energy(w):
        moved = np.concatenate([w, y[-3:]])
        pi = theory.attention(moved)
        return np.mean(theory.response(0.0, moved, pi).loss + y[-1] * h * theory.passed(pi) / 2)

    w, step = y[:-3], 1e-6
    gradient = [(energy(w + step * e) - energy(w - step * e)) / (2 * step) for e in np.eye(len(w))]
    expected = -CFG.lr * CFG.d_g * CFG.N * np.array(gradient)
    assert theory(0.0, y)[:-3] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("noise", ["averaged", "mean"])
def test_a_zero_variance_start_at_uniform_attention_moves_R_and_S_as_the_paper_says(noise):
    start = Start.of(CFG.replace(init_variance=0.0), 0, data="population")
    theory = Quenched.of(CFG, start, noise)
    y = theory.pack(start.params.w_q, start.params.w_k, R=0.0, S=0.0, v=0.0)
    *_, dR, dS, dv = theory(0.0, y)
    rate = CFG.lr * (CFG.N - 1) / CFG.N
    A, tau = 1 / CFG.L, start.tau
    c_R, c_S = meanfield.coefficients(A, CFG.d_g)
    assert dR == pytest.approx(rate * CFG.N / (CFG.N - 1) * (c_R + c_S * tau - 1 / CFG.N), abs=1e-14)
    assert dv == 0
    assert 0 < dS < dR


def test_trajectory_keeps_the_invariants_of_gradient_flow():
    start = Start.of(CFG, 1)
    theory = Quenched.of(CFG, start)
    y = theory.begin(start)
    w_q, w_k, dq, dk = *np.split(y[:-3], 2), *np.split(theory(0.0, y)[:-3], 2)
    per_plane = (w_q * dq - w_k * dk).reshape(-1, 2).sum(axis=1)
    assert per_plane == pytest.approx(0, abs=1e-13)
    assert abs(dq).max() > 1e-3
    th = quenched(CFG, 1)
    assert th.zeta.values == pytest.approx(start.zeta, abs=1e-12)
    assert th.attention.sum("j").values == pytest.approx(1, abs=1e-12)
    assert th.A.values == pytest.approx(np.einsum("ett->e", th.attention.values) / CFG.L, abs=1e-14)


def test_what_is_frozen_stays():
    still = quenched(CFG.replace(freeze="attention"), 0)
    assert np.ptp(still.A.values) == 0
    assert float(still.R[-1]) > 1
    untaught = quenched(CFG.replace(freeze="logic"), 0)
    assert np.ptp(untaught.R.values) == 0
    assert np.ptp(untaught.A.values) > 1e-3


def test_many_seeds_lie_along_seed_and_equal_single_ones():
    several, single = quenched(CFG, [4, 2]), quenched(CFG, 2)
    assert list(several.seed.values) == [4, 2]
    assert (several.sel(seed=2).A == single.A).all()
    drawn = quenched(CFG, draws=3, rng=np.random.default_rng(5))
    again = quenched(CFG, int(drawn.seed[1]))
    assert (drawn.isel(seed=1).R == again.R).all()
    assert float(drawn.A.std("seed").max()) > 0.01


def test_starts_from_any_weights():
    cfg = CFG.replace(train_epochs=240)
    run = cf.simulate(cfg, seed=0)
    th = quenched(cfg, 0, params=cf.Params.of(run))
    for name in ("A", "R", "S", "zeta"):
        assert float(th[name][0]) == pytest.approx(float(run[name][-1]), abs=1e-5)
    with pytest.raises(ValueError, match="seed = a whole number"):
        quenched(cfg, params=cf.Params.of(run))
