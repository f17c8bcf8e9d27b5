"""A sweep as a table and a phase diagram."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import xarray as xr

import cotflow as cf
from cotflow.ensembles.grid import point_names


@pytest.fixture(scope="module")
def swept(tmp_path_factory, tiny):
    """Two by two points, two seeds each; the last point has none."""
    directory = tmp_path_factory.mktemp("swept")
    cfgs = [tiny.replace(lr=lr, N=N, train_epochs=6 * N, eval_every=2) for N in (5, 4) for lr in (0.5, 2.0)]
    named = dict(zip(point_names(cfgs), cfgs, strict=True))
    cf.ensemble(named, range(2), engine="steps", executor=ThreadPoolExecutor(1), out=directory)
    for file in (directory / list(named)[-1]).glob("seed_*.npz"):
        file.unlink()
    return directory, named


def test_a_row_holds_what_its_records_say(swept):
    directory, named = swept
    table = cf.tables.sweep_table(directory)
    assert table.point.values.tolist() == list(named)
    assert table.N.values.tolist() == [5, 5, 4, 4]
    name = list(named)[1]
    row, runs = table.sel(point=name), cf.load(directory / name)
    last = runs.isel(epoch=-1)
    assert float(row.R) == pytest.approx(float(last.R.mean()))
    assert float(row.R_std) == pytest.approx(float(last.R.std(ddof=1)))
    gap = last.rollout_accuracy.sel(split="train") - last.rollout_accuracy.sel(split="test")
    assert float(row.accuracy_gap) == pytest.approx(float(gap.mean()))
    assert float(row.loss_gap) == pytest.approx(float((last.loss.sel(split="test") - last.loss.sel(split="train")).mean()))
    assert float(row.next_token_alpha) == float(cf.statistics.transition(runs, "next_token_accuracy").alpha)
    assert table.seeds.values.tolist() == [2, 2, 2, 0]
    assert np.isnan(float(table.R[-1]))


def test_a_table_of_datasets_is_that_of_their_directory(swept):
    directory, named = swept
    from_files = cf.tables.sweep_table(directory).isel(point=slice(0, 3))
    in_memory = cf.tables.sweep_table({name: cf.load(directory / name) for name in list(named)[:3]})
    assert from_files.drop_vars("failed").identical(in_memory.drop_vars("failed"))


def test_a_phase_diagram_has_every_point_at_its_place(swept):
    directory, named = swept
    table = cf.tables.sweep_table(directory)
    grid = cf.tables.phase_diagram(table)
    assert dict(grid.sizes) == {"N": 2, "lr": 2}
    for name, cfg in named.items():
        there, row = grid.R.sel(N=cfg.N, lr=cfg.lr), table.R.sel(point=name)
        assert there.equals(row.drop_vars(row.coords).assign_coords(there.coords))
    assert cf.tables.phase_diagram(table, "lr", "N").R.equals(grid.R.transpose("lr", "N"))
    with pytest.raises(ValueError, match="several points have the same N"):
        cf.tables.phase_diagram(table, "N")
    with pytest.raises(ValueError, match="fields = L do not vary in this table; allowed: N, "):
        cf.tables.phase_diagram(table, "L")


def test_exports_read_back_as_they_were(swept, tmp_path):
    grid = cf.tables.phase_diagram(cf.tables.sweep_table(swept[0]))
    back = xr.load_dataset(cf.tables.export(grid, tmp_path / "phase.nc"))
    assert back.equals(grid)
    lines = cf.tables.export(grid, tmp_path / "phase.csv").read_text().splitlines()
    assert lines[0].startswith("N,lr,A,A_std,")
    assert len(lines) == 5
    with pytest.raises(ValueError, match=r"allowed: names that end in \.csv or \.nc"):
        cf.tables.export(grid, tmp_path / "phase.xls")


def test_the_level_of_a_transition_may_be_another(swept):
    directory, named = swept
    name = list(named)[1]
    table = cf.tables.sweep_table(directory, level=0.4)
    when = cf.statistics.transition(cf.load(directory / name), "A", 0.4)
    assert float(table.A_crossed.sel(point=name)) == float(when.crossed)
    assert float(table.A_alpha.sel(point=name)) == float(when.alpha)
    assert table.attrs["transitions"].startswith("A: A = 0.4, ")


def test_a_point_of_which_every_seed_failed_is_kept(tiny, tmp_path):
    points = {"good": tiny, "bad": tiny.replace(lr=1e60)}
    runs = cf.ensemble(points, range(2), engine="steps", executor=ThreadPoolExecutor(1), out=tmp_path, keep_going=True)
    for table in (cf.tables.sweep_table(runs), cf.tables.sweep_table(tmp_path)):
        assert table.point.values.tolist() == ["good", "bad"]
        assert (table.seeds.values.tolist(), table.failed.values.tolist()) == ([2, 0], [0, 2])
        assert table.lr.values.tolist() == [0.5, 1e60]


def test_points_without_fields_have_no_place_in_a_phase_diagram(swept, tmp_path):
    directory, named = swept
    copy = shutil.copytree(directory, tmp_path / "copy")
    gone = list(named)[-1]
    shutil.rmtree(copy / gone)
    grid, whole = (cf.tables.phase_diagram(cf.tables.sweep_table(place)) for place in (copy, directory))
    assert grid.R.equals(whole.R)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"split": "foo"}, "split = 'foo' is not allowed; allowed: train, test"),
        ({"results": xr.Dataset({"A": ("seed", [1.0])})}, "results is one Dataset; allowed: the directory of a sweep, or a dict"),
        ({"results": {}}, "results is empty"),
        ({"results": {"a": xr.Dataset({"A": ("epoch", [1.0])})}}, r"results\['a'\] is not the runs of one or more seeds"),
    ],
)
def test_what_is_no_sweep_is_told(swept, change, told):
    with pytest.raises(ValueError, match=told):
        cf.tables.sweep_table(**{"results": swept[0], **change})


def test_a_trajectory_is_no_table(tiny, tmp_path):
    with pytest.raises(ValueError, match=r"a trajectory, whose file cf\.save writes"):
        cf.tables.export(cf.theory.closure(tiny), tmp_path / "th.csv")
    assert not (tmp_path / "th.csv").exists()
    runs = cf.theory.quenched(tiny, [0, 1])
    assert cf.tables.export(cf.statistics.over_seeds(runs), tmp_path / "spread.csv").exists()
