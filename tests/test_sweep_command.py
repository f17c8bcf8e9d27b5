"""`cotflow sweep` and `cotflow status`: what a user sees and finds."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

import pytest
import xarray as xr
from rich.console import Console

from cotflow.cli import main
from cotflow.commands.summary import print_table
from cotflow.commands.sweep import verdict
from cotflow.ensembles.grid import read_grid
from cotflow.ensembles.jobs import Held
from cotflow.ensembles.options import check_options
from cotflow.ensembles.train import Records, train_points
from cotflow.errors import Failure


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(map(str, arguments)))
    return int(end.value.code or 0)


@pytest.fixture
def grid(tmp_path, tiny):
    """Two learning rates, one of which diverges."""
    file = tmp_path / "grid.toml"
    fields = "".join(line for line in tiny.to_toml().splitlines(keepends=True) if not line.startswith("lr"))
    file.write_text(f'seeds = "0:2"\nengine = "steps"\n{fields}[axes]\nlr = [0.5, 1e60]\n')
    return file


def test_a_sweep_tells_what_it_did_and_what_failed_and_leaves_a_summary(grid, tmp_path, capsys):
    out = tmp_path / "out"
    assert run("sweep", grid, "--out", out, "--dry_run") == 0
    assert not out.exists()
    capsys.readouterr()
    assert run("sweep", grid, "--out", out, "--workers", "1") == 1
    said = capsys.readouterr()
    assert "2 points, seeds 0:2: 4 runs" in said.out
    assert "lr=1e+60 seed 1 failed: the loss is no longer finite" in said.err
    assert "cotflow: 2 of 4 runs failed" in said.err
    assert "run the same command with --failed to run those that failed alone" in said.err
    table = xr.load_dataset(out / "summary.nc")
    assert table.seeds.values.tolist() == [2, 0]
    assert table.failed.values.tolist() == [0, 2]
    assert (out / "summary.csv").read_text().startswith("point,lr,A,")
    assert (out / "grid.toml").read_text() == grid.read_text()
    assert run("status", out) == 0
    told = capsys.readouterr().out
    assert "lr=1e+60 seeds 0:2 failed: for example the loss is no longer finite" in told
    assert "2 of 4 runs done; no process is at work on it" in told


def test_what_failed_can_be_run_alone(grid, tmp_path):
    plan = read_grid(grid)
    options = check_options({"engine": "steps"})
    (only,) = [name for name in plan.points if name != "lr=0.5"]
    train_points({only: plan.points[only]}, [1], options, ThreadPoolExecutor(1), tmp_path / "out")
    again = train_points(plan.points, plan.seeds, options, ThreadPoolExecutor(1), tmp_path / "out", only_failed=True)
    assert [(failure.point, failure.seed) for failure in again.failures] == [(only, 1)]
    assert not again.done


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--slurm", "--scheduler", "tcp://127.0.0.1:1"], "exclude each other"),
        (["--slurm", "--workers", "2"], "--workers is for processes of this machine"),
        (["--scheduler", "tcp://127.0.0.1:1", "--workers", "2"], "--workers is for processes of this machine"),
        (["--workers", "0"], "workers = 0 is not allowed; allowed: whole numbers from 1"),
        (["--slurm", "--memory", "banana"], "memory = 'banana' is not allowed; allowed: a number of bytes with its unit"),
        (["--slurm", "--walltime", "banana"], "walltime = 'banana' is not allowed; allowed: minutes, "),
    ],
)
@pytest.mark.parametrize("dry", [[], ["--dry_run"]], ids=["", "dry"])
def test_flags_that_mean_nothing_are_refused_before_anything_is_begun(grid, tmp_path, capsys, flags, told, dry):
    assert run("sweep", grid, "--out", tmp_path / "out", *flags, *dry) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_is_refused_leaves_everything_as_it_was(grid, tmp_path, capsys):
    out = tmp_path / "out"
    run("sweep", grid, "--out", out, "--workers", "1")
    (out / "lr=0.5" / "seed_1.npz").rename(out / "lr=0.5" / "seed_7.npz")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    grid.write_text(grid.read_text().replace("lr = [", "lr = [0.125, "))
    for flags in ([], ["--dry_run"]):
        assert run("sweep", grid, "--out", out, *flags) == 2
        assert "seed_7.npz holds another run (seed = 1, now 7)" in capsys.readouterr().err
        assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_a_rehearsal_says_what_would_run(grid, tmp_path, capsys):
    out = tmp_path / "out"
    run("sweep", grid, "--out", out, "--workers", "1")
    (out / "lr=0.5" / "seed_1.npz").write_bytes(b"PK")
    before = sorted(out.rglob("*"))
    capsys.readouterr()
    assert run("sweep", grid, "--out", out, "--seeds", "0:3", "--dry_run") == 0
    told = capsys.readouterr().out
    assert "lr=0.5  seeds 1:3 would run, 1 of 3 done; train_epochs = 60, alpha up to 3" in told
    assert "seed_1.npz is truncated" in told
    assert "lr=1e+60  seeds 0:3 would run, 0 of 3 done" in told
    assert "5 of 6 runs would run" in told
    assert run("sweep", grid, "--out", out, "--failed", "--dry_run") == 0
    told = capsys.readouterr().out
    assert "lr=0.5  nothing would run" in told
    assert "2 of 4 runs would run" in told
    assert sorted(out.rglob("*")) == before


def test_failed_alone_is_no_success_while_others_are_missing(grid, tmp_path, capsys):
    out = tmp_path / "out"
    grid.write_text(grid.read_text().replace("1e60", "0.25"))
    run("sweep", grid, "--out", out, "--seeds", "0", "--workers", "1")
    (out / "lr=0.5" / "seed_1.failed.txt").write_text("a disk that was full\n")
    capsys.readouterr()
    assert run("sweep", grid, "--out", out, "--failed", "--workers", "1") == 1
    said = capsys.readouterr()
    assert "cotflow: 1 of 4 runs have not been run; the same command without --failed runs them" in said.err
    assert (out / "lr=0.5" / "seed_1.npz").exists()
    assert not (out / "lr=0.25" / "seed_1.npz").exists()


def test_a_seed_in_other_hands_has_not_failed(tiny):
    held, other = Held("a", 1, "it is being trained"), Failure("b", 0, "it diverged")
    assert verdict(Records({("a", 0)}, failures=[held]), 2) == (
        "1 of 2 runs are in the hands of another process (a seed 1); the same command completes them"
    )
    assert verdict(Records(failures=[other, held]), 2).startswith("1 of 2 runs failed: b seed 0: it diverged; 1 of 2 runs are in")
    assert "--failed to run those that failed alone" in verdict(Records(failures=[other, held]), 2)
    assert verdict(Records({("a", 0)}), 1) == ""


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("names", [["n_train_seq=65536", "N=8"], ["[red]lr=0.25[/red],L=3", "x" * 150]], ids=["short", "long"])
def test_the_table_fits_a_terminal_and_numbers_are_whole(width, names):
    values = {"A": 0.99871, "R": 1.0, "loss": 1.5e-05, "next_token_accuracy": 0.98765, "rollout_accuracy": 0.87654}
    values |= {"rollout_alpha": 123.456, "rollout_crossed": 0.95, "seeds": 20.0, "failed": 3.0}
    table = xr.Dataset({name: ("point", [value, value]) for name, value in values.items()}, coords={"point": names})
    console = Console(width=width, force_terminal=True, color_system=None, file=io.StringIO())
    print_table(table, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    for number in ("20", "3", "0.9987", "0.8765", "123.46"):
        assert shown.split().count(number) == 2
    pieces = "".join(line.split(" ")[1] for line in shown.splitlines() if line.startswith(" "))
    assert all(name in pieces for name in names)


def test_seeds_added_one_ensemble_after_the_other_are_all_counted(tiny, tmp_path, capsys):
    for seeds in ([0, 1], [1, 2]):
        train_points({"": tiny}, seeds, check_options({"engine": "steps"}), ThreadPoolExecutor(1), tmp_path)
    assert run("status", tmp_path) == 0
    told = capsys.readouterr().out
    assert "0:3" in told
    assert "2 of 2 runs done" in told
