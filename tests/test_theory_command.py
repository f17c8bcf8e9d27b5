"""`cotflow theory`: every tier printed, saved and drawn; what a tier does not take is refused in a sentence."""

from __future__ import annotations

import numpy as np
import pytest

import cotflow as cf
from cotflow.cli import main

SMALL = ["--preset", "smoke", "--n_train_seq", "256"]


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as leaving:
        main(["theory", *map(str, arguments)])
    return int(leaving.value.code or 0)


@pytest.mark.parametrize("tier", ["closure", "quenched", "column", "early", "onset"])
def test_every_tier_is_printed_saved_and_drawn(tier, tmp_path, capsys):
    out, plot = tmp_path / "deep" / "th.npz", tmp_path / "th.png"
    assert run(tier, *SMALL, "--out", out, "--plot", plot) == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= max(80, len(str(out)) + 9)
    saved = cf.load(out)
    cfg = cf.Config.preset("smoke", n_train_seq=256)
    expected = cf.theory.solve(tier, cfg, 0 if tier in ("quenched", "column") else None)
    assert saved.A.equals(expected.A)
    assert f"{float(expected.R[-1]):.4f}" in said
    assert plot.read_bytes().startswith(b"\x89PNG")
    if tier in ("quenched", "column"):
        assert "data = training" in said


def test_options_reach_the_tier(tmp_path, capsys):
    out = tmp_path / "th.npz"
    assert run("closure", *SMALL, "--power", 2, "--tau", 0.2, "--zeta", 0.1, "--out", out) == 0
    expected = cf.theory.closure(cf.Config.preset("smoke", n_train_seq=256), power=2, tau=0.2, zeta=0.1)
    assert cf.load(out).A.equals(expected.A)
    assert run("quenched", *SMALL, "--seeds", "3,5", "--data", "population", "--noise", "mean", "--out", out) == 0
    said = capsys.readouterr().out
    assert "2 seeds, mean ± standard deviation" in said
    assert "infinite training set" in " ".join(said.split())
    saved = cf.load(out)
    one = cf.theory.quenched(cf.Config.preset("smoke", n_train_seq=256), 5, data="population", noise="mean")
    assert np.array_equal(saved.A.sel(seed=5), one.A)
    assert run("column", *SMALL, "--draws", 2, "--contexts", 0) == 0
    assert "rollout" not in capsys.readouterr().out


def test_a_theory_is_drawn_over_a_simulation(tmp_path, tiny):
    cf.save(cf.simulate(tiny, 0), tmp_path / "seed_0.npz")
    size = [f"--{name}={getattr(tiny, name)}" for name in ("N", "L", "d_g", "d_h", "n_train_seq", "train_epochs", "eval_every")]
    for name in ("order_parameters", "accuracies"):
        assert run("column", *size, "--plot", tmp_path / f"{name}.pdf", "--over", tmp_path / "seed_0.npz", "--figure", name) == 0
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["warp"], "tier = 'warp' does not exist; allowed: closure, quenched, column, early, onset"),
        (["closure", "--seed", "1"], "tier 'closure' takes no seed"),
        (["quenched", "--power", "2"], "tier 'quenched' takes no power"),
        (["quenched", "--seed", "1", "--draws", "3"], "exclude each other"),
        (["quenched", "--draws", "0"], "draws = 0 is not allowed"),
        (["column", "--data", "some"], "data = 'some' is not allowed"),
        (["closure", "--N", "1"], "N = 1 is not allowed"),
        (["closure", "--optimizer", "adamw"], "optimizer = 'adamw' cannot be represented by theory tier 'closure'"),
        (["closure", "--out", "th.csv"], "whose name ends with .npz"),
        (["closure", "--plot", "th.gif"], "whose name ends with .png, .pdf or .svg"),
        (["closure", "--plot", "th.png", "--figure", "magic"], "figure = 'magic' is not allowed"),
        (["closure", "--over", "there"], "--over needs --plot"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(arguments, told, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())
