"""Training with learned or wider embeddings: against the student module, a token-by-token oracle, and the paper's model."""

from __future__ import annotations

import numpy as np
import pytest

import cotflow as cf
import oracles
from cotflow.gradients import backend

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from cotflow.gradients import bags  # noqa: E402 - they need PyTorch
from cotflow.torch_model import Embedded, student_loss_and_gradient, student_observables, token_tensor  # noqa: E402

SIZES = [(2, 1, 1, 2, 1), (5, 3, 4, 6, 2), (8, 5, 6, 10, 3)]


def problem(N: int, L: int, d_g: int, d_h: int, d_model: int, **changes) -> tuple[cf.Config, cf.Task, cf.Params]:
    """A student with random weights and embeddings, so that attention differs much between sequences."""
    fields = {"N": N, "L": L, "d_g": d_g, "d_h": d_h, "d_model": d_model, "n_train_seq": 30, "n_test_seq": 10}
    cfg = cf.Config(**{**fields, "fix_embedding": False, "dtype": "float64", **changes})
    rng = np.random.default_rng(0)
    params = cf.Params(**{name: rng.standard_normal(x.shape) for name, x in cf.Params.initial(cfg, 0).items()})
    return cfg, cf.Task(cfg, 0), params.astype(cfg.dtype)


@pytest.mark.parametrize("size", SIZES)
def test_loss_is_the_token_by_token_oracles_and_the_gradient_the_modules(size):
    cfg, task, params = problem(*size)
    loss, gradient = student_loss_and_gradient(cfg, params, task.train)
    assert loss == pytest.approx(oracles.token_loss(cfg, params, task.train), rel=1e-12)
    student = Embedded(cfg, params)
    student.loss(token_tensor(task.train, cfg.d_g)).backward()
    exact = {"w_q": student.attention.w_q, "w_k": student.attention.w_k, "m": student.logic.m, "embedding": student.embedding}
    for name, found in gradient.items():
        np.testing.assert_allclose(found, exact[name].grad.numpy(), rtol=1e-9, atol=1e-13, err_msg=name)


def test_the_gradient_is_the_slope_of_the_loss():
    cfg, task, params = problem(*SIZES[1])
    split = task.train.take(slice(8))
    _, gradient = student_loss_and_gradient(cfg, params, split)
    for name, found in gradient.items():
        index = tuple(size // 2 for size in found.shape)
        slope = oracles.finite_difference(lambda p: oracles.token_loss(cfg, p, split), params, name, index)
        assert found[index] == pytest.approx(slope, rel=1e-6, abs=1e-9), name


@pytest.mark.parametrize("budget", [1, 200, 2**30])
def test_chunks_of_any_size_give_the_same_result(budget, monkeypatch):
    cfg, task, params = problem(*SIZES[2])
    loss, gradient = student_loss_and_gradient(cfg, params, task.train)
    seen = student_observables(cfg, params, task.train)
    monkeypatch.setitem(bags._CHUNK, "cpu", budget)
    fresh = cf.Task(cfg, 0).train
    again, other = student_loss_and_gradient(cfg, params, fresh)
    assert again == pytest.approx(loss, rel=1e-13)
    for (_, x), (_, y) in zip(gradient.items(), other.items(), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(student_observables(cfg, params, fresh).attention, seen.attention, rtol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_observables_are_those_of_the_module(size):
    cfg, task, params = problem(*size)
    x, student = token_tensor(task.train, cfg.d_g), Embedded(cfg, params)
    found = student_observables(cfg, params, task.train)
    np.testing.assert_allclose(found.attention, student.pi(x).detach().numpy().mean(axis=0), rtol=1e-10)
    z = student(x).detach().numpy()
    correct = np.take_along_axis(z, task.train.targets[..., None], axis=-1)
    others = z[np.arange(cfg.N) != task.train.targets[..., None]]
    assert found.statistics.mu_k == pytest.approx(correct.mean(), rel=1e-10)
    assert found.statistics.var_k == pytest.approx(correct.var(), rel=1e-10)
    assert found.statistics.mu_o == pytest.approx(others.mean(), rel=1e-10)
    assert found.statistics.var_o == pytest.approx(others.var(), rel=1e-10)
    assert found.statistics.next_token_accuracy == pytest.approx((z.argmax(-1) == task.train.targets).mean())
    generated = student.generate(x[:, : cfg.L + 1])[:, cfg.L :].numpy() - cfg.d_g
    assert np.array_equal(found.rollout, generated)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d_model", [1, 3])
def test_unit_embeddings_are_the_papers_model(dtype, d_model):
    """At embeddings of one, only the sum of the columns of W_Q and W_K matters: loss, gradient and observables agree."""
    paper = cf.Config(N=6, L=4, d_g=5, d_h=8, n_train_seq=200, n_test_seq=10, dtype=dtype)
    cfg, task = paper.replace(fix_embedding=False, d_model=d_model), cf.Task(paper, 0)
    wide = cf.Params.initial(cfg, 2)
    narrow = cf.Params(wide.w_q.sum(axis=1), wide.w_k.sum(axis=1), wide.m)
    (loss, found), (expected, exact) = (cf.gradient(c, p, task.train, backend="torch") for c, p in ((cfg, wide), (paper, narrow)))
    tolerance = 1e-12 if dtype == "float64" else 1e-6
    assert loss == pytest.approx(expected, rel=tolerance)
    for name in ("w_q", "w_k"):
        for column in getattr(found, name).T:
            np.testing.assert_allclose(column, getattr(exact, name), rtol=0, atol=tolerance)
    np.testing.assert_allclose(found.m, exact.m, rtol=0, atol=tolerance)
    torch_backend = backend("torch")
    np.testing.assert_allclose(
        torch_backend.attention(cfg, wide, task.train), torch_backend.attention(paper, narrow, task.train), atol=tolerance
    )
    assert torch_backend.statistics(cfg, wide, task.train) == pytest.approx(
        torch_backend.statistics(paper, narrow, task.train), rel=max(tolerance, 1e-10) * 10, abs=1e-7
    )


def test_a_run_with_learned_embeddings_beats_the_fixed_one_and_holds_fixed_ones_fixed():
    fixed = cf.Config(N=5, L=3, d_g=4, d_h=6, n_train_seq=60, n_test_seq=10, train_epochs=600, eval_every=600, d_model=2)
    free = fixed.replace(fix_embedding=False)
    runs = {c.fix_embedding: cf.simulate(c, seed=3, engine="steps", backend="torch") for c in (free, fixed)}
    loss = {fixed: run["loss"].sel(split="train").values for fixed, run in runs.items()}
    assert loss[False][0] == pytest.approx(loss[True][0])
    assert loss[False][-1] < loss[True][-1] < loss[True][0]
    assert np.array_equal(cf.Params.of(runs[True]).embedding, np.ones((9, 2), np.float32))
    assert not np.array_equal(cf.Params.of(runs[False]).embedding, np.ones((9, 2), np.float32))
    assert runs[False]["attention"].sum("j").values == pytest.approx(1.0)


def test_the_fused_kernel_refuses_what_it_cannot_represent():
    cfg, task, params = problem(*SIZES[1])
    with pytest.raises(ValueError, match="fix_embedding = False"):
        cf.gradient(cfg, params, task.train, backend="fused")
