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
    assert "2 seeds, mean (standard deviation in its last digits)" in " ".join(said.split())
    assert "infinite training set" in " ".join(said.split())
    saved = cf.load(out)
    one = cf.theory.quenched(cf.Config.preset("smoke", n_train_seq=256), 5, data="population", noise="mean")
    assert np.array_equal(saved.A.sel(seed=5), one.A)
    assert run("column", *SMALL, "--draws", 2, "--contexts", 0) == 0
    assert "rollout" not in capsys.readouterr().out


def test_several_seeds_of_every_column_fit_a_terminal(tmp_path, capsys):
    assert run("column", *SMALL, "--seeds", "0:3", "--out", tmp_path / "th.npz") == 0
    said, th = capsys.readouterr().out, cf.load(tmp_path / "th.npz")
    assert max(len(line) for line in said.splitlines() if "saved in" not in line) <= 80
    assert "…" not in said
    last = th.isel(epoch=-1)
    assert f"{float(last.R.mean()):.3f}({1000 * float(last.R.std(ddof=1)):.0f})" in said


def test_tier_one_takes_variances_of_a_record_or_of_tier_three(tmp_path, capsys):
    cfg = cf.Config.preset("smoke", n_train_seq=256)
    third = cf.theory.column(cfg, 0, contexts=0)
    cf.save(third, tmp_path / "third.npz")
    assert run("closure", *SMALL, "--variances", tmp_path / "third.npz", "--out", tmp_path / "th.npz") == 0
    assert cf.load(tmp_path / "th.npz").rollout_accuracy.equals(cf.theory.closure(cfg, variances=third).rollout_accuracy)
    assert run("closure", *SMALL, "--variances", tmp_path / "nowhere.npz") == 2
    assert "nowhere.npz does not exist" in capsys.readouterr().err


def test_a_theory_is_drawn_over_a_simulation(tmp_path, tiny):
    cf.save(cf.simulate(tiny, 0), tmp_path / "seed_0.npz")
    size = [f"--{name}={getattr(tiny, name)}" for name in ("N", "L", "d_g", "d_h", "n_train_seq", "train_epochs", "eval_every")]
    for name in ("order_parameters", "accuracies"):
        assert run("column", *size, "--plot", tmp_path / f"{name}.pdf", "--over", tmp_path / "seed_0.npz", "--figure", name) == 0
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_a_theory_takes_the_configuration_of_the_simulation_under_it_and_no_other(tmp_path, tiny, capsys):
    cf.save(cf.simulate(tiny, 0), tmp_path / "seed_0.npz")
    over = ["--over", tmp_path / "seed_0.npz", "--plot", tmp_path / "th.pdf"]
    assert run("closure", *over, "--out", tmp_path / "th.npz") == 0
    assert cf.config_of(cf.load(tmp_path / "th.npz")) == tiny
    cf.save(cf.simulate(tiny, 3), tmp_path / "seed_3.npz")
    assert run("quenched", "--over", tmp_path / "seed_3.npz", "--plot", tmp_path / "th.pdf", "--out", tmp_path / "three.npz") == 0
    assert cf.load(tmp_path / "three.npz").attrs["seed"] == 3
    (tmp_path / "th.pdf").unlink()
    assert run("closure", *over, "--preset", "smoke") == 2
    said = capsys.readouterr().err
    assert "seed_0.npz is of another configuration (N = 5, now 8, L = 3, now 5" in said
    assert "train_epochs" not in said
    assert not (tmp_path / "th.pdf").exists()


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
        (["closure", "--over", "there", "--plot", "th.png"], "there does not exist"),
        (["closure", "--figure", "accuracies"], "--figure needs --plot"),
        (["onset", "--figure", "accuracies", "--plot", "th.png"], "tier 'onset' predicts nothing that the figure 'accuracies'"),
        (["quenched", "--variances", "third.npz"], "tier 'quenched' takes no variances"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(arguments, told, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())
