"""`cotflow verify` passes on a right installation, and a wrong one does not get past it."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from cotflow import verify
from cotflow.checking import Check, Result, Runs, Skipped
from cotflow.cli import main
from cotflow.gradients import fused


def outcome(*arguments: str) -> int:
    with pytest.raises(SystemExit) as leaving:
        main(list(arguments))
    return int(leaving.value.code or 0)


@pytest.fixture(scope="module")
def runs() -> Runs:
    return Runs()


@pytest.mark.parametrize("check", verify.CHECKS, ids=lambda check: check.name)
def test_every_check_passes_here(runs, check):
    result = check(runs)
    assert result.ok, result


def test_no_check_is_forgotten():
    written = [value for value in vars(verify).values() if isinstance(value, Check)]
    assert set(written) == set(verify.CHECKS)
    assert len({check.name for check in written}) == len(written)


def test_the_command_prints_a_line_for_each_check(monkeypatch, capsys):
    chosen = (verify.gradient_against_differences, verify.closure_constant)
    monkeypatch.setattr(verify, "CHECKS", chosen)
    assert outcome("verify") == 0
    said = capsys.readouterr().out
    for check in chosen:
        line = next(line for line in said.splitlines() if check.name in line)
        assert f"{check.limit:.2g}" in line
        assert "ok" in line
    assert max(map(len, said.splitlines())) <= 80
    assert "2 of 2 checks passed" in said


@pytest.mark.parametrize(
    ("part", "factor"), [("loss", 1 + 1e-4), ("d_pi", 1 + 1e-4), ("d_m", 1 + 1e-4)], ids=["loss", "attention", "matrices"]
)
def test_a_sabotaged_gradient_is_found(monkeypatch, capsys, part, factor):
    """One part in ten thousand is enough, with PyTorch as reference and, in the gradient, without it."""
    right = fused.loss_and_gradient

    def wrong(*args, **kwargs):
        out = dict(zip(("loss", "d_pi", "d_m"), right(*args, **kwargs), strict=True))
        return tuple(value * (factor if name == part else 1) for name, value in out.items())

    monkeypatch.setattr(fused, "loss_and_gradient", wrong)
    checks = (verify.gradient_against_differences, verify.fused_against_torch_in_single, verify.fused_against_torch_in_double)
    found = [check(Runs()).ok for check in checks]
    assert found[1:] == [False, False]
    assert found[0] is (part == "loss")
    monkeypatch.setattr(verify, "CHECKS", checks)
    assert outcome("verify") == 1
    assert "checks failed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "finders"),
    [
        ("steps", (verify.rows_sum_to_one, verify.attention_is_a_probability, verify.column_sums_are_conserved)),
        ("leap", (verify.leap_is_sgd_in_A, verify.leap_is_sgd_in_R)),
        ("flow", (verify.planes_are_balanced,)),
        ("large", (verify.column_against_simulation,)),
    ],
    ids=["steps", "leap", "flow", "theory"],
)
def test_a_run_that_goes_astray_is_found(runs, name, finders):
    """Curves and final weights off by 3 %, as a wrong engine or a wrong theory would have them."""
    astray = Runs()
    astray.__dict__.update({each: getattr(runs, each) for each in ("steps", "leap", "flow", "large")})
    astray.__dict__[name] = getattr(runs, name).map(
        lambda values: values * 1.03 if values.dims[0] == "epoch" or values.name.startswith("final") else values, keep_attrs=True
    )
    assert [check(astray).ok for check in finders] == [False] * len(finders)


def test_threads_that_differ_are_found(monkeypatch):
    right = fused.loss_and_gradient

    def wrong(pi, m, plan, threads=None):
        loss, d_pi, d_m = right(pi, m, plan, threads)
        return loss, d_pi, np.nextafter(d_m, 1) if threads == 2 else d_m

    monkeypatch.setattr(fused, "loss_and_gradient", wrong)
    result = verify.threads_agree(Runs())
    assert result.ok is False
    assert result.measured == verify.PAPER.d_g * verify.PAPER.N**2


def test_without_pytorch_its_checks_are_skipped(monkeypatch, capsys):
    known = importlib.util.find_spec
    monkeypatch.setattr(verify, "find_spec", lambda name: None if name == "torch" else known(name))
    monkeypatch.setattr(verify, "CHECKS", (verify.fused_against_torch_in_single, verify.closure_constant))
    assert outcome("verify") == 0
    said = capsys.readouterr().out
    assert "PyTorch is not installed" in said
    assert "1 of 2 checks passed, 1 skipped" in said


def test_a_check_that_raises_has_failed_and_says_why():
    def broken(_: Runs) -> float:
        raise RuntimeError("no such thing")

    def absent(_: Runs) -> float:
        raise Skipped("not here")

    assert Check("broken", 1.0, broken)(Runs()).ok is False
    assert Check("broken", 1.0, broken)(Runs()).note == "RuntimeError: no such thing"
    assert Check("absent", 1.0, absent)(Runs()).ok is None
    assert Check("not a number", 1.0, lambda _: np.nan)(Runs()).ok is False
    assert isinstance(Check("right", 1.0, lambda _: 0.5)(Runs()), Result)
