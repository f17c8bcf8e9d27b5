"""The fused kernel against the oracle: any sizes, logits, precision, number of threads; and its forward passes."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cotflow as cf
import oracles
from cotflow.attention import frequencies, scores_pull_back
from cotflow.gradients import backend as make_backend
from cotflow.gradients import fused, gradient, rollout, threads
from cotflow.gradients import plan as plan_module
from cotflow.task import Split

SIZES = [
    {"N": 2, "L": 1, "d_g": 1, "d_h": 2},
    {"N": 5, "L": 3, "d_g": 4, "d_h": 6},
    {"N": 8, "L": 64, "d_g": 1024, "d_h": 4, "n_train_seq": 3},
    {"N": 19, "L": 6, "d_g": 7, "d_h": 10, "rope_law": "linear"},
]


def problem(size: dict, scale: float = 1.0, **changes) -> tuple[cf.Config, cf.Task, cf.Params]:
    cfg = cf.Config(**{"dtype": "float64", "n_train_seq": 60, "n_test_seq": 5, **size, **changes})
    params = cf.Params.initial(cfg, 1)
    return cfg, cf.Task(cfg, 0), cf.Params(params.w_q, params.w_k, (scale * params.m).astype(cfg.dtype))


def pi_of(cfg: cf.Config, params: cf.Params) -> np.ndarray:
    return oracles.attention(cfg, params.w_q, params.w_k)


def check(cfg: cf.Config, task: cf.Task, params: cf.Params, tolerance: float) -> None:
    """Loss and every block of the gradient are the oracle's, relative to the largest entry of the block."""
    loss, found = gradient(cfg, params, task.train)
    expected_loss, expected = oracles.loss_and_gradient(cfg, params, task.train)
    assert loss == pytest.approx(expected_loss, rel=tolerance)
    for name in ("w_q", "w_k", "m"):
        x, y = getattr(found, name), getattr(expected, name)
        assert x.dtype == cfg.dtype
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * max(abs(y).max(), 1e-3), err_msg=name)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_loss_and_gradient_are_the_oracles(size):
    check(*problem(size), tolerance=1e-12)


@pytest.mark.parametrize("size", [*SIZES[1:], {"N": 128, "L": 2, "d_g": 3, "d_h": 2, "n_train_seq": 20}], ids=str)
def test_single_precision_rounds_the_same_gradient(size):
    check(*problem(size, dtype="float32"), tolerance=1e-5)


def test_sums_of_many_items_lose_nothing_in_single_precision():
    """Half a million items of three states and two actions: a running sum in single precision would be wrong by 1e-3."""
    cfg, task, params = problem({"N": 3, "L": 64, "d_g": 2, "d_h": 6}, n_train_seq=8192, dtype="float32")
    loss, found = gradient(cfg, params, task.train)
    exact = gradient(cfg.replace(dtype="float64"), params.astype("float64"), task.train)
    assert loss == pytest.approx(exact[0], rel=1e-7)
    for (name, x), (_, y) in zip(found.items(), exact[1].items(), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=2e-6 * abs(y).max(), err_msg=name)


@settings(max_examples=25, deadline=None)
@given(
    N=st.integers(5, 8),
    L=st.integers(1, 6),
    d_g=st.integers(1, 20),
    n=st.integers(1, 40),
    scale=st.sampled_from([0.0, 0.1, 3.0, 60.0]),
)
def test_any_shape_and_size_of_logits(N, L, d_g, n, scale):
    check(*problem({"N": N, "L": L, "d_g": d_g, "d_h": 4, "n_train_seq": n}, scale), tolerance=1e-11)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [30.0, 1e4])
def test_large_logits_lose_nothing(scale, dtype):
    check(*problem(SIZES[1], scale, dtype=dtype), tolerance=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("backend", ["fused", "torch"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_any_entry_of_m_that_is_not_finite_shows_in_the_loss(value, backend):
    """In the last row of a state, and of an action that does not occur as well."""
    if backend == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    cfg, task, params = problem({"N": 5, "L": 2, "d_g": 3, "d_h": 4, "n_train_seq": 20})
    split = cf.Split(np.minimum(task.train.actions, 1), task.train.states)
    for a, r, s in ((1, 2, 4), (1, 4, 2), (2, 0, 0)):
        m = params.m.copy()
        m[a, r, s] = value
        loss, _ = gradient(cfg, cf.Params(params.w_q, params.w_k, m), split, backend=backend)
        assert not np.isfinite(loss), (a, r, s)


@pytest.mark.parametrize("backend", ["fused", "torch"])
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda a, s: (a[:, :2], s), r"actions has shape \(60, 2\)"),
        (lambda a, s: (a[:0], s[:0]), "n of 1 or more"),
        (lambda a, s: (a, s[:, 1:]), r"states \(60, 3\); allowed: \(n, L = 3\) and \(n, 4\)"),
        (lambda a, s: (a + 1, s), "actions holds values outside the whole numbers 0 to 3"),
        (lambda a, s: (a - 1, s), "actions holds values outside"),
        (lambda a, s: (a, s + 1), "states holds values outside the whole numbers 0 to 4"),
        (lambda a, s: (a * 1.0, s), "actions holds values outside"),
    ],
)
def test_sequences_that_do_not_fit_are_refused_before_a_kernel_sees_them(spoil, told, backend):
    if backend == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    cfg, task, params = problem(SIZES[1])
    with pytest.raises(ValueError, match=told):
        gradient(cfg, params, cf.Split(*spoil(task.train.actions, task.train.states)), backend=backend)
    small = cfg.replace(d_g=3)  # a split that was looked at for one config is looked at again for another
    gradient(cfg, params, task.train, backend=backend)
    with pytest.raises(ValueError, match="actions holds values outside the whole numbers 0 to 2"):
        gradient(small, cf.Params.initial(small, 0), task.train, backend=backend)
    with pytest.raises(ValueError, match="actions holds values outside"):
        task.sequences([[0, 1, 4]], [0])


@pytest.mark.parametrize("backend", ["fused", "torch"])
@pytest.mark.parametrize("margin", [5.0, 20.0, 30.0])
def test_the_pull_on_sharp_attention_is_not_lost_in_rounding(margin, backend):
    """Against a longdouble pull-back: rows of pi are within 1e-13 of one-hot, and what is left must keep its digits."""
    if backend == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    cfg, task, params = problem({"N": 5, "L": 3, "d_g": 4, "d_h": 16})
    sharp = cf.Params.teacher(cfg, task, margin=margin)
    sharp = cf.Params(sharp.w_q, sharp.w_k, params.m)
    found = gradient(cfg, sharp, task.train, backend=backend)[1]
    scores, pulled = oracles.scores(cfg, sharp.w_q, sharp.w_k).astype(np.longdouble), np.zeros((cfg.L, cfg.L))
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    pi = e / e.sum(axis=1, keepdims=True)
    d_pi = fused.loss_and_gradient(pi.astype(float), sharp.m, fused.prepare(task.train, cfg.N, cfg.d_g))[1].astype(np.longdouble)
    for t in range(cfg.L):
        for j in range(cfg.L):
            pulled[t, j] = float(pi[t, j] * np.sum(pi[t] * (d_pi[t, j] - d_pi[t])))
    expected = scores_pull_back(sharp.w_q, sharp.w_k, frequencies(cfg), pulled)
    for x, y in zip((found.w_q, found.w_k), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-12 * abs(y).max())


def test_logits_just_below_the_size_that_needs_a_maximum_subtracted():
    """One step, one sequence an action: correct logits at -a and all others at a, on both sides of the limit."""
    for bits in (0.99 * fused.SAFE, 1.01 * fused.SAFE, 90.0):
        a = np.float32(bits * np.log(2))
        cfg = cf.Config(N=32, L=1, d_g=2, d_h=2, n_train_seq=8, n_test_seq=1)
        task = cf.Task(cfg, 0)
        m = (a * (1 - 2 * task.teacher)).astype(np.float32)
        loss, _, d_m = fused.loss_and_gradient(np.ones((1, 1)), m, fused.prepare(task.train, 32, 2))
        assert loss == pytest.approx(2 * float(a) + np.log(31), rel=1e-6)
        assert d_m[task.teacher > 0].sum() == pytest.approx(-1, rel=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("block", ["m", "w_q"])
def test_a_weight_that_is_not_finite_shows_in_the_loss(value, block):
    cfg, task, params = problem(SIZES[1], dtype="float32")
    plan = fused.prepare(task.train, cfg.N, cfg.d_g)
    pi, m = pi_of(cfg, params), params.m.copy()
    (m if block == "m" else pi).flat[3] = value
    assert not np.isfinite(fused.loss_and_gradient(pi, m, plan)[0])
    assert not np.isfinite(fused.statistics(pi, m, plan).loss)
    assert fused.rollout(pi, m, task.test.actions, task.test.states[:, 0]).max() < cfg.N


def test_results_do_not_depend_on_the_number_of_threads_or_on_the_run(monkeypatch):
    monkeypatch.setattr(threads, "LEAST", 1)
    cfg, task, params = problem(SIZES[1], n_train_seq=5000, dtype="float32")
    pi = pi_of(cfg, params)
    plans = fused.prepare(task.train, cfg.N, cfg.d_g), fused.prepare(cf.Task(cfg, 0).train, cfg.N, cfg.d_g)
    assert plans[0] is fused.prepare(task.train, cfg.N, cfg.d_g)
    results = [fused.loss_and_gradient(pi, params.m, plan, k) for plan in plans for k in (1, 2, 3, 9)]
    for loss, d_pi, d_m in results[1:]:
        assert loss == results[0][0]
        assert (d_pi == results[0][1]).all()
        assert (d_m == results[0][2]).all()
    assert len({fused.statistics(pi, params.m, plan, k) for plan in plans for k in (1, 2, 9)}) == 1


def test_gradients_of_minibatches_average_to_that_of_the_whole():
    cfg, task, params = problem(SIZES[3], n_train_seq=301)
    rows = np.random.default_rng(3).permutation(301)
    whole = gradient(cfg, params, task.train)[1]
    parts = [(len(part), gradient(cfg, params, task.train.take(part))[1]) for part in np.array_split(rows, 4)]
    for name in ("w_q", "w_k", "m"):
        mean = sum(n * getattr(g, name) for n, g in parts) / 301
        np.testing.assert_allclose(mean, getattr(whole, name), rtol=0, atol=1e-13)


def test_large_batches_are_cut_into_blocks_that_cover_every_item_once():
    cfg, task, _ = problem(SIZES[1], n_train_seq=5000)
    plan = fused.prepare(task.train, cfg.N, cfg.d_g)
    sizes = np.diff(plan.blocks)
    assert (sizes.min(), sizes.sum()) >= (1, 5000 * cfg.L)
    assert sizes.max() <= fused.BLOCK
    assert plan.blocks[plan.groups[-1]] == 5000 * cfg.L
    first, quads = plan.quads
    places = np.stack([quads >> np.uint64(12 * k) & np.uint64(4095) for k in range(4)], axis=1)
    block = np.repeat(np.arange(len(first) - 1) // cfg.L, np.diff(first))
    listed = np.zeros(5000 * cfg.L, int)
    np.add.at(listed, (plan.blocks[block][:, None] + places.astype(int) - 1)[places > 0], 1)
    assert (listed == cfg.L).all()
    counts = np.bincount(task.train.actions[:, 0])
    np.testing.assert_array_equal(np.bincount(plan.actions[:, 0]), cfg.L * counts)


def test_columns_of_the_gradient_sum_to_zero():
    """A softmax does not see a shift of all logits, so SGD conserves every column sum of m."""
    cfg, task, params = problem(SIZES[3])
    d_m = gradient(cfg, params, task.train)[1].m
    assert abs(d_m.sum(axis=1)).max() < 1e-16 < abs(d_m).max()


@pytest.mark.parametrize("scale", [1.0, 300.0])
@pytest.mark.parametrize("size", SIZES[1:], ids=str)
def test_statistics_are_the_oracles(size, scale):
    cfg, task, params = problem(size, scale)
    pi = pi_of(cfg, params)
    found = fused.statistics(pi, params.m, fused.prepare(task.train, cfg.N, cfg.d_g))
    expected = oracles.statistics(pi, params.m, task.train)
    for name, value in expected.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-12, abs=1e-14), name


def test_variances_of_logits_far_from_zero_are_sound():
    cfg, task, params = problem(SIZES[3])
    pi, plan = pi_of(cfg, params), fused.prepare(task.train, cfg.N, cfg.d_g)
    near, far = (fused.statistics(pi, params.m + shift, plan) for shift in (0.0, 1e6))
    assert far.mu_k == pytest.approx(near.mu_k + 1e6, rel=1e-14)
    assert (far.loss, far.var_k, far.var_o) == pytest.approx((near.loss, near.var_k, near.var_o), rel=1e-8)


@pytest.mark.parametrize("backend", ["fused", "torch"])
@pytest.mark.parametrize(("scale", "noise"), [(20.0, 1e-4), (100.0, 1e-3)])
def test_small_variances_beside_a_large_margin_are_kept_in_single_precision(scale, noise, backend):
    if backend == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    cfg, task, params = problem({"N": 32, "L": 2, "d_g": 4, "d_h": 4}, dtype="float32")
    m = (scale * task.teacher + noise * params.m).astype(np.float32)
    student = cf.Params(*(getattr(cf.Params.teacher(cfg, task, margin=60.0), name) for name in ("w_q", "w_k")), m)
    made = make_backend(backend)
    found = made.statistics(cfg, student, task.train)
    exact = oracles.statistics(pi_of(cfg, student), m.astype(float), task.train)
    assert exact["var_o"] == pytest.approx(noise**2 / 3, rel=0.2)
    for name in ("var_k", "var_o"):
        # the logits themselves are rounded to half a unit of 2^-24 of their size
        assert getattr(found, name) == pytest.approx(exact[name], rel=2e-3, abs=(scale * 2.0**-24) ** 2), name


def test_weights_that_are_not_finite_roll_out_to_nothing():
    cfg, task, params = problem(SIZES[1])
    broken = cf.Params(params.w_q, params.w_k, np.full_like(params.m, np.nan))
    with pytest.raises(ValueError, match=r"params\.m holds weights that are not finite"):
        rollout(cfg, broken, task.test.actions, task.test.states[:, 0])


def test_sequences_in_any_order_of_bytes(tiny):
    task, params = cf.Task(tiny, 0), cf.Params.initial(tiny, 0)
    foreign = Split(task.train.actions.astype(">i8"), task.train.states.astype(">i4"))
    assert gradient(tiny, params, foreign)[0] == gradient(tiny, params, task.train)[0]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_rollouts_are_the_oracles(size, monkeypatch):
    monkeypatch.setattr(threads, "LEAST", 1)
    cfg, task, params = problem(size)
    actions, s0 = task.train.actions, task.train.states[:, 0]
    expected = oracles.rollout(pi_of(cfg, params), params.m, actions, s0)
    for k in (1, 3):
        np.testing.assert_array_equal(rollout(cfg, params, actions, s0, threads=k), expected)


def test_a_student_that_knows_the_task_solves_it_and_one_that_knows_nothing_takes_the_first_token():
    cfg, task, _ = problem(SIZES[3])
    pi = np.eye(cfg.L)
    right = fused.rollout(pi, task.teacher, task.train.actions, task.train.states[:, 0])
    np.testing.assert_array_equal(right, task.train.states)
    assert (fused.rollout(pi, 0 * task.teacher, task.train.actions, task.train.states[:, 0])[:, 1:] == 0).all()
    sure = fused.statistics(pi, 50 * task.teacher, fused.prepare(task.train, cfg.N, cfg.d_g))
    assert sure == pytest.approx((sure.loss, 1.0, 50.0, 0.0, 0.0, 0.0), abs=1e-12)
    assert 0 <= sure.loss < 1e-12
    assert min(sure.var_k, sure.var_o) >= 0


def test_threads_come_from_keyword_then_environment_then_machine(monkeypatch):
    monkeypatch.delenv("COTFLOW_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert threads.resolve() == threads.cores() >= 1
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert threads.resolve() == 5
    monkeypatch.setenv("COTFLOW_THREADS", "3")
    assert (threads.resolve(), threads.resolve(2)) == (3, 2)
    monkeypatch.setenv("COTFLOW_THREADS", "many")
    with pytest.raises(ValueError, match="COTFLOW_THREADS = 'many'"):
        threads.resolve()
    for wrong in (0, 2.7, True, [2], np.inf, threads.MOST + 1):
        with pytest.raises(ValueError, match=r"threads = .* is not allowed; allowed: whole numbers from 1 to"):
            threads.resolve(wrong)
    monkeypatch.delenv("COTFLOW_THREADS")
    monkeypatch.setenv("OMP_NUM_THREADS", "4,2")
    assert threads.resolve() == 4
    monkeypatch.setenv("OMP_NUM_THREADS", "whatever OpenMP may take")
    assert threads.resolve() == threads.cores()


def test_minibatches_are_sorted_by_counting(tiny, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("an epoch of minibatches must not sort")

    cf.simulate(tiny.replace(batch_size=20, train_epochs=2, eval_every=1), engine="steps")
    monkeypatch.setattr(np, "argsort", refuse)
    monkeypatch.setattr(np, "sort", refuse)
    plans = []
    make = plan_module.Plan.__init__
    monkeypatch.setattr(plan_module.Plan, "__init__", lambda self, *args: plans.append(make(self, *args)))
    cf.simulate(tiny.replace(batch_size=20, train_epochs=2, eval_every=1), engine="steps")
    assert len(plans) == 2 * 4 + 2  # four minibatches an epoch, and the two splits of evaluation


def test_every_thread_gets_its_share_and_few_items_stay_with_one():
    shares = []
    threads.each_share(lambda *share: shares.append(share), threads.LEAST * np.arange(11), 3)
    assert sorted(shares) == [(0, 4), (4, 7), (7, 10)]
    shares.clear()
    threads.each_share(lambda *share: shares.append(share), np.arange(11), 3)
    assert shares == [(0, 10)]


def test_an_error_in_a_thread_reaches_the_caller():
    def fail(first: int, last: int) -> None:
        if first > 0:
            raise RuntimeError("from another thread")

    with pytest.raises(RuntimeError, match="from another thread"):
        threads.each_share(fail, np.arange(0, 11 * threads.LEAST, threads.LEAST), 3)


PROGRAM = """
import numpy as np, cotflow as cf, oracles, sys
cfg = cf.Config(N=3, L=2, d_g=3, d_h=2, n_train_seq=6, n_test_seq=4, dtype="float64")
task, params = cf.Task(cfg, 0), cf.Params.initial(cfg, 0)
loss, found = cf.gradient(cfg, params, task.train)
expected_loss, expected = oracles.loss_and_gradient(cfg, params, task.train)
assert abs(loss - expected_loss) < 1e-13, (loss, expected_loss)
for (name, x), (_, y) in zip(found.items(), expected.items()):
    assert abs(x - y).max() < 1e-13, name
assert cf.rollout(cfg, params, task.test.actions, task.test.states[:, 0]).shape == (4, 3)
"""


def run_elsewhere(**environment: str) -> str:
    """Run PROGRAM in another process; returns what it says on stderr."""
    path = os.pathsep.join([os.path.dirname(oracles.__file__), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, **environment}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_kernels_mean_the_same_without_compilation():
    assert run_elsewhere(NUMBA_DISABLE_JIT="1") == ""


def test_a_plain_machine_will_do_and_what_is_compiled_once_is_kept(tmp_path):
    plain = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    assert "compiling" in run_elsewhere(**plain)
    assert run_elsewhere(**plain) == ""
