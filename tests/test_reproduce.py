"""One command makes everything, makes nothing twice, and goes on where it was interrupted."""

from __future__ import annotations

import json
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import cotflow as cf
from cotflow import reproduce as module
from cotflow.cli import main as cli
from cotflow.errors import Interrupted
from cotflow.experiments import SIZE_SEEDS, experiments, possible, snapshot_epochs, variations
from cotflow.figures import FIGURES
from cotflow.figures.style import STYLE
from cotflow.reproduce import flags_for, reproduce, solve_theories
from cotflow.results import TIERS, Results, TheoryJob
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
        assert results.jobs("main", tier, seeds) == []


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
    monkeypatch.setattr(TheoryJob, "solve", refuse)
    with ThreadPoolExecutor(1) as executor:
        reproduce([0, 1, 2], out, False, tiny, workers=1, executor=executor, say=said.append)
    assert said[0].startswith("all records are in")


@pytest.mark.usefixtures("one_figure")
@pytest.mark.parametrize(
    ("stage", "raised", "told"),
    [
        ("draw_figures", KeyboardInterrupt(), "interrupted; the same command goes on from what is there"),
        ("solve_theories", KeyboardInterrupt(), "interrupted; the same command goes on from what is there"),
        (
            "ensemble",
            Interrupted("3 runs are recorded; the same command goes on"),
            "3 runs are recorded; the same command goes on",
        ),
    ],
)
def test_interrupted_it_says_once_that_the_same_command_goes_on(tiny, tmp_path, monkeypatch, stage, raised, told):
    def interrupt(*arguments, **options):
        raise raised

    def again():
        return reproduce([3], tmp_path, False, tiny, workers=1, executor=executor, say=lambda text: None)

    with ThreadPoolExecutor(1) as executor:
        with monkeypatch.context() as patch:
            patch.setattr(module, stage, interrupt)
            with pytest.raises(KeyboardInterrupt) as interruption:
                again()
        assert str(interruption.value) == told
        record = record_path(tmp_path / "main", 3)
        before = record.stat().st_mtime_ns if record.exists() else None
        assert again().exists()
    assert before in (None, record.stat().st_mtime_ns)


@pytest.mark.parametrize("seeds", [[0, 1], [0, 7]])
@pytest.mark.parametrize(("place", "told"), [("main", "lr = 0.5, now 0.25"), ("snapshots", "lr = 0.5, now 0.25")])
def test_another_configuration_in_the_same_place_is_refused(made, tiny, tmp_path, seeds, place, told):
    out = tmp_path / "out"
    (out / place).mkdir(parents=True)
    for record in (made[0].parent / place).glob("seed_*.npz"):
        (out / place / record.name).symlink_to(record)
    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match=told):
        reproduce(seeds, out, False, tiny.replace(lr=0.25), workers=1, executor=executor, say=lambda text: None)


def test_the_paper_is_the_default_plan():
    (only,) = experiments(cf.Config.preset("main"), range(100))
    assert (only.name, len(only.seeds), only.engine) == ("main", 100, "leap")
    everything = experiments(cf.Config.preset("main"), range(100), True, cf.Config.preset("robustness"))
    assert [each.name for each in everything] == ["main", "robustness", "sizes", "sweep", "exact"]


def test_variations_last_as_long_as_the_main_table():
    main = cf.Config.preset("main")
    points, left_out = possible(main, variations(main))
    assert len(points) == 7
    assert not left_out
    for cfg in points.values():
        assert cfg.train_epochs * cfg.alpha_per_epoch == pytest.approx(main.train_epochs * main.alpha_per_epoch, rel=1e-3)
        assert set(cfg.difference(main)) - {"train_epochs", "eval_every"} in ({"L"}, {"N", "d_g"}, {"d_h"}, {"lr"})


@pytest.mark.parametrize(
    ("fields", "left_out"),
    [
        ({"n_train_seq": 4, "n_test_seq": 4}, {"n_train_seq=0"}),
        ({"vocabulary": "symmetric", "N": 3, "L": 3}, set()),
        ({"vocabulary": ((1, 0, 2), (0, 2, 1))}, {"N=4,d_g=4"}),
        ({"n_train_seq": 64, "batch_size": 32}, {"n_train_seq=8"}),
    ],
)
def test_impossible_variations_are_left_out_with_the_reason(fields, left_out):
    plan = experiments(cf.Config(**fields), [0], True)
    reasons = {name: reason for each in plan for name, reason in each.left_out.items()}
    assert set(reasons) == left_out
    assert all("allowed" in reason or "vocabulary" in reason for reason in reasons.values())


def test_what_leaps_cannot_represent_is_trained_step_by_step():
    for fields in ({"optimizer": "adamw"}, {"n_train_seq": 64, "batch_size": 32}):
        plan = experiments(cf.Config(**fields), [0], True)
        assert {(each.engine, each.backend) for each in plan} == {("steps", "fused")}
        assert "exact" not in [each.name for each in plan]
    (only,) = experiments(cf.Config(d_model=2, fix_embedding=False), [0])
    assert (only.engine, only.backend) == ("steps", "torch")


@pytest.mark.usefixtures("one_figure")
def test_adamw_is_reproduced_too(tiny, tmp_path):
    with ThreadPoolExecutor(1) as executor:
        report = reproduce([0], tmp_path, False, tiny.replace(optimizer="adamw"), workers=1, executor=executor, say=print)
    assert cf.load(tmp_path / "main").attrs["engine"] == "steps"
    assert "nan" not in report.read_text().partition("<body>")[2].partition("base64")[0]


@pytest.mark.parametrize("preset", ["main", "robustness", "smoke"])
def test_flags_give_back_the_configuration(preset, tmp_path):
    from cotflow.commands.options import Fields, build_config

    for changes in ({}, {"L": 4, "lr": 1e-5}, {"n_train_seq": 256}, {"n_train_seq": 256, "batch_size": 32}, {"d_g": 5, "d_h": 6}):
        cfg = cf.Config.preset(preset, **changes)
        words = flags_for(cfg)
        given = {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}
        assert build_config(given.pop("preset", None), None, Fields(**given)) == cfg
        assert (not words or words[0] == "--preset") == (not changes or preset != "main")
    assert flags_for(cf.Config(fix_embedding=False)) == ["--no-fix_embedding"]


def cotflow(*arguments) -> int:
    with pytest.raises(SystemExit) as leaving:
        cli(list(map(str, arguments)))
    return int(leaving.value.code or 0)


@pytest.mark.usefixtures("one_figure")
def test_the_command_in_the_report_repeats_it(tmp_path, capsys):
    out = tmp_path / "some results"
    fields = "--L 2 --d_g 4 --n_train_seq 64 --train_epochs 50"
    first = shlex.split(f"reproduce --preset smoke {fields} --workers 1")
    assert cotflow(*first, "--out", out, "--seeds", "3") == 0
    assert cotflow(*first, "--out", out, "--seeds", "0,1") == 0
    report = json.loads((out / "report.json").read_text())
    program, *command = shlex.split(report["command"])
    assert program == "cotflow"
    capsys.readouterr()
    assert cotflow(*command) == 0
    assert capsys.readouterr().out.startswith("all records are in")
    again = json.loads((out / "report.json").read_text())
    assert {key: again[key] for key in ("command", "seeds", "config")} == {
        key: report[key] for key in ("command", "seeds", "config")
    }
    assert again["seeds"] == [0, 1, 3]
    assert report["command"] in (out / "report.html").read_text().replace("&#x27;", "'")
    other = [word if word != "2" else "3" for word in first]
    assert cotflow(*other, "--out", out, "--seeds", "0,1") == 2
    assert "L = 2, now 3" in capsys.readouterr().err


def test_a_command_tells_seeds_of_all_calls_and_permutations_by_their_file(made, tiny, tmp_path):
    results = Results(made[0].parent)
    assert " --seeds 0:3 --all --N 5 " in module.command_for(results, tiny, tmp_path)
    own = cf.Config(vocabulary=((1, 0, 2), (0, 2, 1)))
    assert "--config results/main/config.toml" in module.command_for(results, own, Path("results"))


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


def test_theories_start_where_the_runs_start(tiny, tmp_path):
    """Of runs from given weights, tiers 2 and 3 start from these, tier 1 has none, and new weights have new theories."""
    refusals = []
    cf.save(cf.simulate(tiny, 0), record_path(tmp_path, 0))
    solve_theories(Results(tmp_path), None, refusals.append, ["tiers"])
    assert len(Results(tmp_path).theory("main", "closure")) == 1
    for start in ("teacher", "initial"):
        params = cf.Params.teacher(tiny, cf.Task(tiny, 0)) if start == "teacher" else cf.Params.initial(tiny, 7)
        run = cf.simulate(tiny, 0, params=params)
        cf.save(run, record_path(tmp_path, 0))
        solve_theories(Results(tmp_path), None, refusals.append, ["tiers"])
        for tier in ("quenched", "column"):
            [theory] = Results(tmp_path).theory("main", tier)
            assert float(theory.A[0, 0]) == pytest.approx(float(run.A[0]), abs=1e-6)
            assert float(theory.R[0, 0]) == pytest.approx(float(run.R[0]), abs=1e-6)
        assert Results(tmp_path).theory("main", "closure") == []
    assert "  left out: closure starts from random weights, these runs from given ones" in refusals
