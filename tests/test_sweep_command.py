"""`cotflow sweep` and `cotflow status`: what a user sees and finds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import xarray as xr

from cotflow.cli import main
from cotflow.ensembles.grid import read_grid
from cotflow.ensembles.options import check_options
from cotflow.ensembles.train import train_points


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
    assert "with --failed to run these alone" in said.err
    table = xr.load_dataset(out / "summary.nc")
    assert table.seeds.values.tolist() == [2, 0]
    assert table.failed.values.tolist() == [0, 2]
    assert (out / "summary.csv").read_text().startswith("point,lr,A,")
    assert (out / "grid.toml").read_text() == grid.read_text()
    assert run("status", out) == 0
    told = capsys.readouterr().out
    assert "lr=1e+60 seed 0 failed: the loss is no longer finite" in told
    assert "2 of 4 runs done; no process is at work on it" in told


def test_what_failed_can_be_run_alone(grid, tmp_path):
    plan = read_grid(grid)
    options = check_options({"engine": "steps"})
    (only,) = [name for name in plan.points if name != "lr=0.5"]
    train_points({only: plan.points[only]}, [1], options, ThreadPoolExecutor(1), tmp_path / "out")
    again = train_points(plan.points, plan.seeds, options, ThreadPoolExecutor(1), tmp_path / "out", only_failed=True)
    assert [(failure.point, failure.seed) for failure in again.failures] == [(only, 1)]
    assert not again.done


def test_flags_that_exclude_each_other_are_refused(grid, tmp_path, capsys):
    assert run("sweep", grid, "--out", tmp_path / "out", "--slurm", "--scheduler", "tcp://127.0.0.1:1") == 2
    assert "exclude each other" in capsys.readouterr().err


def test_seeds_added_one_ensemble_after_the_other_are_all_counted(tiny, tmp_path, capsys):
    for seeds in ([0, 1], [1, 2]):
        train_points({"": tiny}, seeds, check_options({"engine": "steps"}), ThreadPoolExecutor(1), tmp_path)
    assert run("status", tmp_path) == 0
    told = capsys.readouterr().out
    assert "0:3" in told
    assert "2 of 2 runs done" in told
