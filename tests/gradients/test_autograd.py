"""The PyTorch backend against the float64 oracle and its own slower formulations, for any sizes, logits and chunking."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import cotflow as cf
import oracles
from cotflow.gradients import backend

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from cotflow.gradients import autograd, bags  # noqa: E402 - they need PyTorch

SIZES = [
    {"N": 2, "L": 1, "d_g": 1, "d_h": 2},
    {"N": 5, "L": 3, "d_g": 4, "d_h": 6},
    {"N": 9, "L": 5, "d_g": 13, "d_h": 10, "rope_law": "linear"},
    {"N": 33, "L": 2, "d_g": 3, "d_h": 4, "rope_law": "power"},
]


def problem(size: dict, n: int = 40, scale: float = 1.0, **changes) -> tuple[cf.Config, cf.Task, cf.Params]:
    cfg = cf.Config(**{"dtype": "float64", "n_train_seq": n, "n_test_seq": 5, **size, **changes})
    params = cf.Params.initial(cfg, 1)
    return cfg, cf.Task(cfg, 0), cf.Params(params.w_q, params.w_k, (scale * params.m).astype(cfg.dtype))


def largest_difference(one: cf.Params, two: cf.Params) -> float:
    """The largest error of a block, relative to the block's largest entry."""
    blocks = dict(two.items())
    return max(np.abs(x - blocks[name]).max() / max(np.abs(blocks[name]).max(), 1e-3) for name, x in one.items())


@pytest.mark.parametrize("method", autograd.METHODS)
@pytest.mark.parametrize("size", SIZES)
def test_loss_and_gradient_are_the_oracles(size, method):
    cfg, task, params = problem(size)
    loss, gradient = autograd.loss_and_gradient(cfg, params, task.train, method=method)
    expected, explicit = oracles.loss_and_gradient(cfg, params, task.train)
    assert loss == pytest.approx(expected, rel=1e-12)
    assert largest_difference(gradient, explicit) < 1e-12


@pytest.mark.parametrize("size", SIZES[1:])
def test_single_precision_rounds_the_same_gradient(size):
    cfg, task, params = problem(size, n=300, dtype="float32")
    loss, gradient = autograd.loss_and_gradient(cfg, params, task.train)
    expected, explicit = autograd.loss_and_gradient(cfg.replace(dtype="float64"), params.astype("float64"), task.train)
    assert loss == pytest.approx(expected, rel=1e-6)
    assert largest_difference(gradient, explicit) < 1e-5
    assert all(x.dtype == np.float32 for _, x in gradient.items())


@pytest.mark.parametrize("budget", [1, 300, 2**30])
def test_chunks_of_any_size_give_the_same_gradient(budget, monkeypatch):
    cfg, task, params = problem(SIZES[2], n=100)
    expected = autograd.loss_and_gradient(cfg, params, task.train)
    reference = autograd.statistics(cfg, params, task.train)
    monkeypatch.setitem(bags._CHUNK, "cpu", budget)
    fresh = cf.Task(cfg, 0).train
    loss, gradient = autograd.loss_and_gradient(cfg, params, fresh)
    chunks = bags.prepare(fresh, cfg.N, cfg.d_g, torch.device("cpu"))
    assert len(chunks) == {1: cfg.N * cfg.L, 2**30: 1}.get(budget, len(chunks))
    assert sum(len(bag.targets) for bag in chunks) == fresh.actions.size
    assert loss == pytest.approx(expected[0], rel=1e-13)
    assert largest_difference(gradient, expected[1]) < 1e-13
    assert autograd.statistics(cfg, params, fresh) == pytest.approx(reference, rel=1e-12)


@pytest.mark.parametrize("method", autograd.METHODS)
def test_logits_of_ten_thousand_are_safe(method):
    cfg, task, params = problem(SIZES[1], scale=1e4, dtype="float32")
    loss, gradient = autograd.loss_and_gradient(cfg, params, task.train, method=method)
    expected, explicit = oracles.loss_and_gradient(cfg, params, task.train)
    assert loss == pytest.approx(expected, rel=1e-5)
    assert np.abs(gradient.m - explicit.m).max() < 1e-4 * np.abs(explicit.m).max()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_weight_that_is_not_finite_gives_a_loss_that_is_not(bad):
    cfg, task, params = problem(SIZES[1])
    params.m[0, :, :] = bad
    assert not np.isfinite(autograd.loss_and_gradient(cfg, params, task.train)[0])
    assert not np.isfinite(autograd.statistics(cfg, params, task.train).loss)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_statistics_and_rollout_are_the_oracles(size, scale):
    cfg, task, params = problem(size, scale=scale)
    pi = oracles.attention(cfg, params.w_q, params.w_k)
    found = autograd.statistics(cfg, params, task.train)._asdict()
    expected = oracles.statistics(pi, params.m, task.train)
    assert found == pytest.approx(expected, rel=1e-11, abs=1e-13)
    actions, s0 = task.train.actions, task.train.states[:, 0]
    assert np.array_equal(autograd.rollout(cfg, params, actions, s0), oracles.rollout(pi, params.m, actions, s0))
    np.testing.assert_allclose(autograd.attention(cfg, params), pi, rtol=1e-12)


def test_a_common_offset_of_all_weights_does_not_drown_the_variances():
    cfg, task, params = problem(SIZES[1])
    raised = cf.Params(params.w_q, params.w_k, params.m + 1e6)
    plain, shifted = (autograd.statistics(cfg, p, task.train) for p in (params, raised))
    assert shifted.var_k == pytest.approx(plain.var_k, rel=1e-8)
    assert shifted.var_o == pytest.approx(plain.var_o, rel=1e-8)


def test_both_backends_agree():
    cfg, task, params = problem(SIZES[2], n=200)
    results = [backend(name).loss_and_gradient(cfg, params, task.train) for name in ("torch", "fused")]
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-12)
    assert largest_difference(results[0][1], results[1][1]) < 1e-12
    assert autograd.statistics(cfg, params, task.train) == pytest.approx(
        backend("fused").statistics(cfg, params, task.train), rel=1e-10
    )


def test_the_same_gradient_to_the_bit_every_time():
    cfg, task, params = problem(SIZES[2], n=500, dtype="float32")
    one, two = (autograd.loss_and_gradient(cfg, params, task.train) for _ in range(2))
    assert one[0] == two[0]
    assert all(np.array_equal(x, y) for (_, x), (_, y) in zip(one[1].items(), two[1].items(), strict=True))


def test_memory_is_never_a_matrix_per_sample():
    """No single allocation exceeds one number for each of n L (L + N), where a matrix per sample takes n L N²."""
    N, L, n = 32, 4, 3000
    cfg, task, params = problem({"N": N, "L": L, "d_g": 16, "d_h": 4}, n=n, dtype="float32")
    from torch.profiler import ProfilerActivity, profile

    def largest_allocation(method: str) -> int:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
            autograd.loss_and_gradient(cfg, params, task.train, method=method)
        return max(event.self_cpu_memory_usage for event in seen.events())

    autograd.loss_and_gradient(cfg, params, task.train)
    assert 0 < largest_allocation("bag") <= 4 * n * L * (L + N) < largest_allocation("literal")
    kept = sum(x.nbytes for bag in task.train.prepared[("torch", "cpu")][1] for x in bag if isinstance(x, torch.Tensor))
    assert kept <= 4 * 4 * n * L * (L + N)


def test_preparation_is_kept_and_made_again_for_another_vocabulary():
    cfg, task, params = problem(SIZES[1])
    autograd.loss_and_gradient(cfg, params, task.train)
    kept = task.train.prepared[("torch", "cpu")]
    autograd.statistics(cfg, params, task.train)
    assert task.train.prepared[("torch", "cpu")] is kept
    wider = cfg.replace(d_g=9)
    loss, _ = autograd.loss_and_gradient(wider, cf.Params.initial(wider, 0), task.train)
    assert loss == pytest.approx(oracles.loss(wider, cf.Params.initial(wider, 0), task.train), rel=1e-12)


def test_an_unknown_method_is_named():
    cfg, task, params = problem(SIZES[1])
    with pytest.raises(ValueError, match="method = 'dense' does not exist; allowed: bag, gather, literal"):
        autograd.loss_and_gradient(cfg, params, task.train, method="dense")


def test_a_device_that_is_not_there_is_named():
    cfg, task, params = problem(SIZES[1])
    with pytest.raises(ValueError, match=r"device = 'nowhere' cannot be used \(.*\); allowed: 'cpu'"):
        cf.gradient(cfg, params, task.train, backend="torch", device="nowhere")


def test_read_only_weights_and_data_are_fine(recwarn):
    """What a file or a Dataset hands out cannot always be written to."""
    cfg, task, params = problem(SIZES[1])
    for array in (*dict(params.items()).values(), task.train.actions, task.train.states):
        array.flags.writeable = False
    for method in autograd.METHODS:
        autograd.loss_and_gradient(cfg, params, task.train, method=method)
    autograd.rollout(cfg, params, task.train.actions, task.train.states[:, 0])
    autograd.statistics(cfg, params, task.train)
    assert not recwarn.list


def test_without_pytorch_the_package_works_and_the_backend_says_how_to_get_it():
    code = """
import sys
sys.modules["torch"] = None
import cotflow as cf
cfg = cf.Config.preset("smoke", n_train_seq=8)
task = cf.Task(cfg, 0)
try:
    cf.gradient(cfg, cf.Params.initial(cfg, 0), task.train, backend="torch")
except ValueError as error:
    print(error)
try:
    import cotflow.torch_model
except ImportError as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(out) == 2
    assert all("pip install 'cotflow[torch]'" in line for line in out)
