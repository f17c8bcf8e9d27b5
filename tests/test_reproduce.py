"""One command makes everything, makes nothing twice, and goes on where it was interrupted."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import cotflow as cf
from cotflow import reproduce as module
from cotflow.cli import main as cli
from cotflow.experiments import SIZE_SEEDS, experiments, snapshot_epochs, variations
from cotflow.figures import FIGURES
from cotflow.figures.style import STYLE
from cotflow.reproduce import reproduce
from cotflow.results import TIERS, Results
from cotflow.trajectory import record_path


@pytest.fixture(autouse=True, scope="module")
def _coarse():
    """Files of few pixels: what is drawn is tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STYLE, "savefig.dpi", 40)
        yield


@pytest.fixture
def one_figure(monkeypatch):
    """Let a reproduction draw a single figure."""
    monkeypatch.setattr(module, "available", lambda results: ["rollout"])


@pytest.fixture(scope="module")
def made(tiny, tmp_path_factory):
    """A reproduction of everything, in miniature, and what it said."""
    out, said = tmp_path_factory.mktemp("all") / "results", []
    second = tiny.replace(N=4, d_g=3, rope_law="power")
    with ThreadPoolExecutor(1) as executor:
        report = reproduce([0, 1, 2], out, True, tiny, second, workers=1, executor=executor, say=said.append)
    return report, "\n".join(said)


def test_everything_is_where_it_was_promised(made, tiny):
    report, said = made
    out = report.parent
    assert cf.load(out / "main").sizes["seed"] == 3
    assert cf.load(out / "robustness").sizes["seed"] == 3
    assert cf.load(out / "exact").attrs["engine"] == "steps"
    for name in FIGURES:
        assert (out / "figures" / f"{name}.png").stat().st_size > 1_000
        assert (out / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert f'id="{name}"' in report.read_text()
    assert re.match(r"\d+ runs to train: one gradient takes .* ms", said)
    assert "rollout accuracy reaches 1/2" in said
    assert str(report) in said
    assert (out / "report.json").exists()


def test_snapshots_are_of_the_same_run(made, tiny):
    out = made[0].parent
    again, first = cf.load(record_path(out / "snapshots", 0)), cf.load(record_path(out / "main", 0))
    assert np.array_equal(again.A, first.A)
    assert again.snapshot.values.tolist() == snapshot_epochs(first)


def test_theories_follow_the_seeds_that_were_trained(made, tiny):
    results = Results(made[0].parent)
    (quenched,) = results.theory("main", "quenched")
    assert np.array_equal(quenched.A.sel(seed=2), cf.theory.quenched(tiny, 2).A)
    assert results.theory("main", "column")[0].seed.values.tolist() == [0, 1, 2]
    for tier in TIERS:
        seeds = [0, 1, 2][:SIZE_SEEDS] if tier.endswith("-population") else [0, 1, 2]
        assert results.unsolved("main", tier, seeds) == []


def test_the_exact_run_is_what_leap_stands_for(made):
    results = Results(made[0].parent)
    check = cf.report.cross_check(results)
    assert check is not None
    assert check["max"]["A"] < 1e-4
    assert check["max"]["R"] < 1e-4


@pytest.mark.usefixtures("one_figure")
def test_a_second_call_trains_and_solves_nothing(made, tiny, monkeypatch):
    out, said = made[0].parent, []

    def refuse(*arguments, **options):
        raise AssertionError("this was there already")

    monkeypatch.setattr(module, "ensemble", refuse)
    monkeypatch.setattr(module, "train", refuse)
    monkeypatch.setattr(module, "solve", refuse)
    with ThreadPoolExecutor(1) as executor:
        reproduce([0, 1, 2], out, False, tiny, workers=1, executor=executor, say=said.append)
    assert said[0].startswith("all records are in")


@pytest.mark.usefixtures("one_figure")
def test_interrupted_it_says_that_the_same_command_goes_on(tiny, tmp_path, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as executor:
        with monkeypatch.context() as patch:
            patch.setattr(module, "draw_figures", interrupt)
            with pytest.raises(KeyboardInterrupt, match="the same command goes on"):
                reproduce([3], tmp_path, False, tiny, workers=1, executor=executor, say=lambda text: None)
        before = record_path(tmp_path / "main", 3).stat().st_mtime_ns
        assert reproduce([3], tmp_path, False, tiny, workers=1, executor=executor, say=lambda text: None).exists()
    assert record_path(tmp_path / "main", 3).stat().st_mtime_ns == before


def test_another_configuration_in_the_same_place_is_refused(made, tiny):
    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match=r"lr = 0.5, now 0.25"):
        reproduce([0, 7], made[0].parent, False, tiny.replace(lr=0.25), workers=1, executor=executor, say=lambda text: None)


def test_the_paper_is_the_default_plan():
    (only,) = experiments(cf.Config.preset("main"), range(100))
    assert (only.name, len(only.seeds), only.engine) == ("main", 100, "leap")
    everything = experiments(cf.Config.preset("main"), range(100), True, cf.Config.preset("robustness"))
    assert [each.name for each in everything] == ["main", "robustness", "sizes", "sweep", "exact"]


def test_variations_last_as_long_as_the_main_table():
    main = cf.Config.preset("main")
    for cfg in variations(main).values():
        assert cfg.train_epochs * cfg.alpha_per_epoch == pytest.approx(main.train_epochs * main.alpha_per_epoch, rel=1e-3)
        assert set(cfg.difference(main)) - {"train_epochs", "eval_every"} in ({"L"}, {"N", "d_g"}, {"d_h"}, {"lr"})


def cotflow(*arguments) -> int:
    with pytest.raises(SystemExit) as leaving:
        cli(list(map(str, arguments)))
    return int(leaving.value.code or 0)


def test_the_commands_work_on_a_directory_of_records(made, tmp_path, capsys, monkeypatch):
    records = made[0].parent / "main"
    chosen = ("--only", "order_parameters", "--out", tmp_path, "--format", "pdf", "--without", "column,quenched")
    assert cotflow("figures", records, *chosen) == 0
    assert (tmp_path / "order_parameters.pdf").exists()
    assert "3 seeds" in capsys.readouterr().out
    monkeypatch.setattr("cotflow.figures.make.available", lambda results: ["rollout"])
    assert cotflow("report", records, "--out", tmp_path) == 0
    assert (tmp_path / "report.json").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["figures", "--only", "portrait"], "figure portrait does not exist; allowed: setup"),
        (["figures", "--without", "tier4"], "without = 'tier4' is not allowed; allowed: closure"),
        (["figures", "--only", "transition_times"], "holds no records for any figure asked for"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(made, arguments, told, capsys):
    assert cotflow(arguments[0], made[0].parent / "main", *arguments[1:]) == 2
    assert told in capsys.readouterr().err


def test_what_cannot_be_reproduced_is_refused_in_one_sentence(tmp_path, capsys):
    assert cotflow("reproduce", "--seeds", "5:2", "--out", tmp_path) == 2
    assert "seeds = '5:2' is not allowed" in capsys.readouterr().err
    assert cotflow("reproduce", "--workers", "0", "--out", tmp_path) == 2
    assert "workers = 0 is not allowed" in capsys.readouterr().err
    assert cotflow("report", tmp_path / "nothing") == 2
    assert "is not a directory" in capsys.readouterr().err
