"""The student three ways: one function under the paper's constraints, and more once a constraint is lifted."""

from __future__ import annotations

import numpy as np
import pytest

import cotflow as cf
import oracles

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from cotflow.torch_model import Bundled, ClosedForm, Embedded, token_tensor  # noqa: E402 - they need PyTorch

SIZES = [(2, 1, 1, 2), (5, 3, 4, 6), (8, 5, 6, 10), (12, 7, 3, 16)]


def problem(N: int, L: int, d_g: int, d_h: int, **changes) -> tuple[cf.Config, cf.Task, cf.Params]:
    cfg = cf.Config(**{"N": N, "L": L, "d_g": d_g, "d_h": d_h, "n_train_seq": 60, "n_test_seq": 20, **changes})
    return cfg, cf.Task(cfg, 3), cf.Params.initial(cfg, 3)


def general(cfg: cf.Config, params: cf.Params) -> tuple[cf.Config, cf.Params]:
    """The same weights for a student with an embedding table at one."""
    free = cfg.replace(fix_embedding=False)
    embedding = np.ones((cfg.d_g + cfg.N, 1), params.m.dtype)
    return free, cf.Params(params.w_q[:, None], params.w_k[:, None], params.m, embedding)


def every_student(cfg: cf.Config, params: cf.Params) -> dict:
    """All ways to build the paper's student from the same weights."""
    free = general(cfg, params)
    return {
        f"{name}{', GLU' if glu else ''}{', projections' if lifted else ''}": build(glu=glu, train_projections=lifted)
        for glu, lifted in ((False, False), (True, False), (True, True))
        for name, build in {
            "closed": lambda **kw: ClosedForm(cfg, params, **kw),
            "bundled": lambda **kw: Bundled(cfg, params, **kw),
            "untied": lambda **kw: Bundled(cfg, params, tied=False, **kw),
            "embedded": lambda **kw: Embedded(*free, **kw),
        }.items()
    }


def descend(student, x, steps: int = 40, lr: float = 0.5) -> float:
    """Full-batch gradient descent; the last loss."""
    optimiser = torch.optim.SGD([p for p in student.parameters() if p.requires_grad], lr=lr)
    for _ in range(steps):
        optimiser.zero_grad()
        student.loss(x).backward()
        optimiser.step()
    return student.loss(x).item()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("law", ["power-2pi", "power", "linear"])
def test_all_students_are_the_same_function(size, law):
    """Logits to 1e-6 in single precision, and attention; the reference is the oracle in double precision."""
    cfg, task, params = problem(*size, rope_law=law)
    pi = oracles.attention(cfg, params.w_q, params.w_k)
    z = oracles.logits(pi, params.m, task.train)
    x = token_tensor(task.train, cfg.d_g)
    for name, student in every_student(cfg, params).items():
        assert student(x).dtype == torch.float32, name
        np.testing.assert_allclose(student(x).detach().numpy(), z, rtol=0, atol=1e-6, err_msg=name)
        np.testing.assert_allclose(student.pi(x).detach().numpy(), np.broadcast_to(pi, (60, *pi.shape)), atol=1e-6, err_msg=name)
        assert student.loss(x).item() == pytest.approx(oracles.cross_entropy(z, task.train), rel=1e-6), name


def test_their_gradients_are_the_backends():
    cfg, task, params = problem(*SIZES[2], dtype="float64")
    x = token_tensor(task.train, cfg.d_g)
    _, expected = oracles.loss_and_gradient(cfg, params, task.train)
    for student in (ClosedForm(cfg, params), ClosedForm(cfg, params, glu=True), Bundled(cfg, params)):
        student.loss(x).backward()
        attention, logic = student.attention, student.logic
        m = logic.m.grad if hasattr(logic, "m") else logic.w_d.grad.view(cfg.N, cfg.d_g, cfg.N).permute(1, 0, 2)
        for found, exact in ((attention.w_q.grad, expected.w_q), (attention.w_k.grad, expected.w_k), (m, expected.m)):
            np.testing.assert_allclose(found.numpy(), exact, rtol=1e-9, atol=1e-14)


def test_attention_is_causal_and_sees_actions_only():
    cfg, task, params = problem(*SIZES[1])
    x = token_tensor(task.train, cfg.d_g)
    student = Bundled(cfg, params)
    pi = student.attention(torch.nn.functional.one_hot(x, cfg.d_g + cfg.N).float())
    i, j = torch.meshgrid(torch.arange(1, 8), torch.arange(1, 8), indexing="ij")
    allowed = j <= torch.clamp(i, max=cfg.L)
    assert (pi[:, allowed] > 0).all()
    assert (pi[:, ~allowed] == 0).all()
    torch.testing.assert_close(pi.sum(-1), torch.ones(60, 7))


@pytest.mark.parametrize("size", SIZES)
def test_generation_feeds_back_its_own_tokens(size):
    cfg, task, params = problem(*size, dtype="float64")
    actions, s0 = task.test.actions, task.test.states[:, 0]
    expected = oracles.rollout(oracles.attention(cfg, params.w_q, params.w_k), params.m, actions, s0)
    prompt = token_tensor(task.test, cfg.d_g)[:, : cfg.L + 1]
    for name, student in every_student(cfg, params).items():
        assert np.array_equal(student.generate(prompt)[:, cfg.L :].numpy() - cfg.d_g, expected), name


def test_the_teacher_as_weights_rolls_out_without_error():
    cfg, task, _ = problem(*SIZES[2])
    for student in every_student(cfg, cf.Params.teacher(cfg, task)).values():
        x = token_tensor(task.test, cfg.d_g)
        assert torch.equal(student.generate(x[:, : cfg.L + 1]), x)


def test_weights_come_back_as_params():
    cfg, task, params = problem(*SIZES[2])
    for student in (ClosedForm(cfg, params), ClosedForm(cfg, params, glu=True), Bundled(cfg, params, glu=True)):
        for (name, x), (_, y) in zip(params.items(), student.params().items(), strict=True):
            assert np.array_equal(x, y), name
    free, wide = general(cfg, params)
    assert all(np.array_equal(x, y) for (_, x), (_, y) in zip(wide.items(), Embedded(free, wide).params().items(), strict=True))
    untied = Bundled(cfg, params, tied=False).params()
    one_hot = cfg.replace(fix_embedding=False, d_model=cfg.d_g + cfg.N)
    (again, _), (closed, _) = (cf.gradient(c, p, task.train, backend="torch") for c, p in ((one_hot, untied), (cfg, params)))
    assert again == pytest.approx(closed, rel=1e-6)


def test_tied_columns_stay_the_papers_model_in_training():
    cfg, task, params = problem(*SIZES[1], dtype="float64")
    x = token_tensor(task.train, cfg.d_g)
    losses = [
        descend(student, x) for student in (ClosedForm(cfg, params), Bundled(cfg, params), ClosedForm(cfg, params, glu=True))
    ]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-10)


@pytest.mark.parametrize("lifted", ["untied", "embedded", "closed, GLU, projections"])
def test_each_lifted_constraint_trains_further_than_the_constrained_student(lifted):
    cfg, task, params = problem(*SIZES[1])
    x = token_tensor(task.train, cfg.d_g)
    student = every_student(cfg, params)[lifted]
    start = student.loss(x).item()
    constrained = descend(ClosedForm(cfg, params), x, steps=150)
    assert descend(student, x, steps=150) < constrained < start
    spread = student.pi(x).std(dim=0).max().item()
    if lifted == "closed, GLU, projections":
        assert not torch.equal(student.logic.w_u, ClosedForm(cfg, params, glu=True).logic.w_u)
        with pytest.raises(ValueError, match="trained projections"):
            student.params()
    else:
        assert spread > 1e-3  # attention has come to depend on the sequence


def test_a_student_that_cannot_hold_the_weights_says_so():
    cfg, _, params = problem(*SIZES[1])
    with pytest.raises(ValueError, match="ClosedForm"):
        ClosedForm(*general(cfg, params))
    with pytest.raises(ValueError, match="embedding is missing"):
        Embedded(cfg, params)
    with pytest.raises(ValueError, match="glu = True"):
        ClosedForm(cfg, params, train_projections=True)
    with pytest.raises(ValueError, match=r"allowed: \(d_h,\)"):
        Bundled(*general(cfg, params))
