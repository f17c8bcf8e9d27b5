"""The command line: help at once, one sentence for what is wrong, the promised exit codes, the paper's script."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys

import numpy as np
import pytest
from filelock import FileLock

import cotflow as cf
from cotflow.cli import COMMANDS, main
from cotflow.config import Config
from cotflow.runs import lock_path

SMALL = ["--preset", "smoke", "--train_epochs", "200", "--n_train_seq", "256", "--engine", "steps"]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as leaving:
        main([str(argument) for argument in arguments])
    return int(leaving.value.code or 0)


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom cotflow.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'numba', 'scipy', 'xarray', 'torch', 'matplotlib', 'pydantic', 'distributed'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(command in done.stdout for command in COMMANDS)


def test_every_config_field_is_a_flag(capsys):
    assert run("train", "--help") == 0
    told = capsys.readouterr().out
    for field in Config.model_fields:
        assert f"--{field} " in told


def test_train_is_the_papers_script(tmp_path, capsys):
    assert run("train", "--seed", "3", "--dir", tmp_path, *SMALL) == 0
    record = cf.load(tmp_path / "seed_3.npz")
    assert record.attrs["seed"] == 3
    assert cf.config_of(record) == Config.preset("smoke", train_epochs=200, n_train_seq=256)
    assert "rollout" in capsys.readouterr().out
    assert run("train", "--seed", "3", "--dir", tmp_path, *SMALL) == 0
    assert "was there already" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--N", "1"], "N = 1 is not allowed"),
        (["--d_h", "7"], "d_h = 7 is odd"),
        (["--lr", "fast"], "lr = 'fast' is not allowed"),
        (["--preset", "big"], "preset = 'big' does not exist; allowed: main, robustness, smoke"),
        (["--engine", "warp"], "engine = 'warp' does not exist; allowed: leap, flow, steps"),
        (["--backend", "jax"], "backend = 'jax' does not exist"),
        (["--seeds", "5:2"], "seeds = '5:2' is not allowed"),
        (["--seed", "-1"], "seed = -1 is not allowed"),
        (["--seed", "1.5"], "'1.5' is not allowed; allowed: whole numbers"),
        (["--max_gradients", "30.5"], "'30.5' is not allowed; allowed: whole numbers"),
        (["--save_params", "first"], "save_params = 'first' is not allowed; allowed: epochs, as 0,500,1000"),
        (["--device", "cuda"], "device = 'cuda' needs backend 'torch'"),
        (["--bogus", "1"], "Unknown option"),
        (["--config", "nowhere.toml"], "cannot read the configuration nowhere.toml"),
        (["--start", "nowhere.npz", "--preset", "smoke"], "start = 'nowhere.npz' does not exist"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_bad_usage_is_one_sentence_and_exit_code_2(tmp_path, capsys, arguments, told):
    assert run("train", "--dir", tmp_path, *arguments) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1


def test_another_run_in_the_same_directory_is_refused(tmp_path, capsys):
    run("train", "--dir", tmp_path, *SMALL)
    assert run("train", "--dir", tmp_path, *SMALL, "--lr", "0.25") == 2
    assert "lr = 0.5, now 0.25" in capsys.readouterr().err


def test_a_diverging_run_exits_with_1_and_leaves_what_it_recorded(tmp_path, capsys):
    assert run("train", "--dir", tmp_path, *SMALL, "--optimizer", "adamw", "--lr", "1e38") == 1
    assert "no longer finite" in capsys.readouterr().err
    assert cf.load(tmp_path / "seed_0.failed.npz").attrs["status"] == "failed"
    assert run("status", tmp_path) == 0


def test_status_lists_seeds(tmp_path, capsys):
    run("train", "--dir", tmp_path / "a", "--seeds", "0:3", *SMALL)
    capsys.readouterr()
    assert run("status", tmp_path) == 0
    assert "0:3" in capsys.readouterr().out
    assert run("status", tmp_path / "nowhere") == 2


def test_rollout_generates_and_scores_ones_own_sequences(tmp_path, capsys):
    cfg = Config.preset("smoke")
    run("train", "--dir", tmp_path, "--preset", "smoke", "--engine", "steps", "--train_epochs", "700")
    task = cf.Task(cfg, 0)
    file = tmp_path / "mine.csv"
    with open(file, "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow([f"g{i + 1}" for i in range(cfg.L)] + [f"s{i}" for i in range(cfg.L + 1)])
        writer.writerows(np.hstack([task.test.actions, task.test.states]).tolist())
    capsys.readouterr()
    assert run("rollout", tmp_path / "seed_0.npz", "--input", file, "--output", tmp_path / "out.csv") == 0
    said = capsys.readouterr().out
    assert "final state 1.0000" in said
    assert np.array_equal(np.loadtxt(tmp_path / "out.csv", delimiter=",", dtype=int), task.test.states)
    wrong = [*task.test.actions[0], *task.test.states[0]]
    for place, number, told in (
        (0, 8, "actions outside 0 to 7 (8)"),
        (-1, 10**30, "states outside 0 to 7 (1000"),
        (5, -1, "(-1)"),
    ):
        file.write_text(",".join(str(number if k == place % len(wrong) else entry) for k, entry in enumerate(wrong)))
        assert run("rollout", tmp_path / "seed_0.npz", "--input", file) == 2
        assert told in capsys.readouterr().err
    file.write_bytes(b"\xef\xbb\xbf" + ",".join(f'"{entry}"' for entry in wrong).encode())
    assert run("rollout", tmp_path / "seed_0.npz", "--input", file) == 0
    assert "over 1 sequences" in capsys.readouterr().out
    file.write_text("0,1,2,x,4,5\n1,1,1,1,1,1\n")  # a slip in the first row does not make names of it
    assert run("rollout", tmp_path / "seed_0.npz", "--input", file) == 2
    assert "something else than whole numbers" in capsys.readouterr().err
    file.write_text("1;2;3;4;0;5\n")
    assert run("rollout", tmp_path / "seed_0.npz", "--input", file) == 2
    assert "something else than whole numbers" in capsys.readouterr().err
    file.write_text("1,2,3\n")
    assert run("rollout", tmp_path / "seed_0.npz", "--input", file) == 2
    assert "allowed: L + 1 = 6" in capsys.readouterr().err


def test_too_little_memory_is_told(tmp_path, capsys, monkeypatch):
    def scarce(*arguments, **options):
        raise MemoryError("Unable to allocate 37 GiB")

    monkeypatch.setattr("cotflow.engines.Task", scarce)
    assert run("train", "--dir", tmp_path, *SMALL) == 1
    assert capsys.readouterr().err == "cotflow: there is not enough memory for this (Unable to allocate 37 GiB)\n"


def test_a_seed_in_other_hands_is_no_bad_usage(tmp_path, capsys):
    with FileLock(lock_path(tmp_path, 0)):
        assert run("train", "--dir", tmp_path, *SMALL) == 1
    assert "seed 0 in" in capsys.readouterr().err


def test_starting_points(tmp_path):
    cfg = Config.preset("smoke", train_epochs=200, n_train_seq=256)
    assert run("train", "--dir", tmp_path, "--start", "teacher", *SMALL) == 0
    record = cf.load(tmp_path / "seed_0.npz")
    assert float(record.rollout_accuracy.sel(split="test")[0]) == 1.0
    run("train", "--dir", tmp_path / "on", "--start", tmp_path / "seed_0.npz", *SMALL)
    onward = cf.load(tmp_path / "on" / "seed_0.npz")
    assert np.array_equal(onward.initial_m, record.final_m)
    run("train", "--dir", tmp_path / "half", "--start", "teacher-logic", *SMALL)
    half = cf.load(tmp_path / "half" / "seed_0.npz")
    assert np.array_equal(half.initial_m, cf.Task(cfg, 0).teacher.astype("float32"))
    assert np.array_equal(half.initial_w_q, cf.Params.initial(cfg, 0).w_q)


def test_figures_of_a_sweep_and_of_one_of_its_points(tmp_path, capsys):
    grid = tmp_path / "grid.toml"
    grid.write_text('preset = "smoke"\nseeds = "0:2"\ntrain_epochs = 100\nn_train_seq = 64\n[axes]\nlr = [0.25, 0.5]\n')
    place = tmp_path / "rates"
    assert run("sweep", grid, "--out", place) == 0
    assert run("figures", place, "--format", "pdf") == 0
    assert "over lr; mean ± one standard deviation over 2 seeds a point, 2 simulated points" in " ".join(
        capsys.readouterr().out.split()
    )
    assert [file.name for file in (place / "figures").iterdir()] == ["transition_times.pdf"]
    assert run("figures", place, "--only", "order_parameters") == 2
    assert f"it holds 2 directories of records, such as {place / 'lr=0.25'}" in capsys.readouterr().err
    assert run("figures", place / "lr=0.25", "--only", "order_parameters", "--format", "pdf") == 0
    lone = tmp_path / "lone"
    assert run("sweep", grid, "--out", lone) == 0
    shutil.rmtree(lone / "lr=0.5")
    capsys.readouterr()
    assert run("figures", lone) == 2
    assert f"it holds 1 directory of records, such as {lone / 'lr=0.25'}" in capsys.readouterr().err
    assert run("figures", place, "--format", "gif") == 2
    assert "format = 'gif' is not allowed" in capsys.readouterr().err


def test_runs_and_points_of_a_sweep_do_not_mix_in_one_directory(tmp_path, capsys):
    grid = tmp_path / "grid.toml"
    grid.write_text('preset = "smoke"\nseeds = "0:1"\ntrain_epochs = 50\nn_train_seq = 64\n[axes]\nlr = [0.25, 0.5]\n')
    assert run("sweep", grid, "--out", tmp_path / "rates") == 0
    assert run("train", *SMALL, "--dir", tmp_path / "slow") == 0
    before = sorted(tmp_path.rglob("*.npz"))
    capsys.readouterr()
    for seeds in (["--seed", "0"], ["--seeds", "0:2"]):
        assert run("train", *SMALL, *seeds, "--dir", tmp_path / "rates") == 2
        assert "rates holds the points of a sweep (lr=0.25, lr=0.5)" in capsys.readouterr().err
        assert run("train", *SMALL, *seeds, "--dir", grid) == 2
        assert "grid.toml is not a directory" in capsys.readouterr().err
    assert run("sweep", grid, "--out", tmp_path / "slow") == 2
    assert "slow holds runs of one configuration" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*.npz")) == before
    assert len(cf.tables.sweep_table(tmp_path / "rates").point) == 2


def test_status_leaves_theories_out(tmp_path, tiny, capsys):
    run_ = cf.simulate(tiny, 0)
    cf.save(run_, tmp_path / "main" / "seed_0.npz")
    cf.save(run_, tmp_path / "theory" / "main" / "column" / "seed_0.npz")
    assert run("status", tmp_path) == 0
    said = capsys.readouterr().out
    assert "main" in said
    assert "theory" not in said.replace(str(tmp_path), "")
    cf.save(run_, tmp_path / "runs" / "theory" / "seed_0.npz")
    (tmp_path / "runs" / "theory" / "config.toml").write_text(tiny.to_toml())
    cf.save(run_, tmp_path / "more" / "theory" / "a" / "seed_0.npz")
    (tmp_path / "more" / "theory" / "a" / "config.toml").write_text(tiny.to_toml())
    assert run("status", tmp_path) == 0
    said = capsys.readouterr().out
    assert "runs/theory" in said
    assert "more/theory/a" in said


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["train", "smoke"], "Did you mean --preset smoke?"),
        (["train", "mine.toml"], "Did you mean --config mine.toml?"),
        (["train", "--seeds", "0", "1"], "Several numbers are written 0,1,2."),
        (["status", "a", "smoke"], "Unused Tokens: ['smoke'].\n"),
        (["train", "unheard"], "Unused Tokens: ['unheard'].\n"),
        (["train", "--learning_rate", "1"], "`cotflow train --help` lists all options."),
    ],
)
def test_words_that_lead_nowhere_are_told_where_they_may_belong(arguments, told, capsys):
    assert run(*arguments) == 2
    assert told in capsys.readouterr().err


def test_a_record_may_be_called_as_it_likes_and_a_teacher_of_logic_needs_no_attention(tmp_path, capsys):
    cfg = cf.Config.preset("smoke", train_epochs=2, eval_every=1, n_train_seq=64)
    cf.save(cf.simulate(cfg, 3), tmp_path / "teacher_runs" / "seed_3.npz")
    small = ["--preset", "smoke", "--train_epochs", "2", "--eval_every", "1", "--n_train_seq", "64"]
    assert run("train", *small, "--start", tmp_path / "teacher_runs" / "seed_3.npz", "--dir", tmp_path / "on") == 0
    one_plane = ["--L", "7", "--d_h", "2", "--rope_law", "power-2pi", "--rope_theta", "1"]
    assert run("train", *small, *one_plane, "--start", "teacher-attention", "--dir", tmp_path / "attention") == 2
    assert run("train", *small, *one_plane, "--start", "teacher-logic", "--dir", tmp_path / "logic") == 0
    assert float(cf.load(tmp_path / "logic" / "seed_0.npz").R[0]) == 1
    capsys.readouterr()
    assert run("train", *small, "--start", "tutor", "--dir", tmp_path / "tutor") == 2
    assert "start = 'tutor' does not exist; allowed: a record, teacher," in capsys.readouterr().err
    assert run("train", *small, "--workers", "0", "--dir", tmp_path / "none") == 2
    assert "workers = 0 is not allowed" in capsys.readouterr().err


def test_a_record_that_was_set_aside_and_made_again_was_not_there_already(tmp_path, capsys):
    command = ["train", *SMALL, "--seeds", "0:2", "--dir", tmp_path / "runs"]
    assert run(*command) == 0
    (tmp_path / "runs" / "seed_1.npz").write_bytes(b"PK damaged")
    capsys.readouterr()
    assert run(*command) == 0
    told = {line.split("  ")[0][-10:]: line for line in capsys.readouterr().out.splitlines() if "seed_" in line}
    assert "was there already" in told["seed_0.npz"]
    assert "200 gradients" in told["seed_1.npz"]
