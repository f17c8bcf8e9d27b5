"""A trajectory comes back from its file as it went, alone or with other seeds."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import cotflow as cf
from cotflow.files import FileFault
from cotflow.runs import keep_failure
from cotflow.trajectory import record_path, trajectory


@pytest.fixture(scope="module")
def runs(tiny):
    return {seed: cf.simulate(tiny, seed, engine="steps", save_params=[5]) for seed in (0, 1, 3)}


@pytest.fixture
def directory(tmp_path, runs):
    for seed, run in runs.items():
        cf.save(run, record_path(tmp_path, seed))
    return tmp_path


def test_a_record_round_trips_to_the_bit(directory, runs):
    back = cf.load(directory / "seed_1.npz")
    xr.testing.assert_identical(back, runs[1])
    assert all(back[name].dtype == runs[1][name].dtype for name in back.variables)
    assert cf.config_of(back) == cf.config_of(runs[1])


def test_a_directory_is_one_dataset_over_seeds_that_lists_what_is_missing(directory, runs):
    with pytest.warns(UserWarning, match="no finished record of seed 2"):
        data = cf.load(directory)
    assert list(data.seed.values) == [0, 1, 3]
    assert data.attrs["missing"] == [2]
    assert np.array_equal(data.A.sel(seed=3), runs[3].A)
    assert cf.Params.of(data.sel(seed=1)).m.tobytes() == runs[1].final_m.values.tobytes()
    with pytest.warns(UserWarning, match="seed 4"):
        assert cf.load(directory, seeds=[0, 1, 4]).attrs["missing"] == [4]
    with pytest.raises(FileFault, match="holds no finished records"):
        cf.load(directory, seeds=[9])
    assert "final_m" not in cf.load(directory, seeds=[0, 1], weights=False)


def test_mixed_configs_are_refused_with_the_difference(directory, tiny):
    cf.save(cf.simulate(tiny.replace(lr=0.25), 2, engine="steps", save_params=[5]), record_path(directory, 2))
    with pytest.raises(FileFault, match=r"mixes records.*lr = 0.5 and 0.25"):
        cf.load(directory)


def test_records_that_started_elsewhere_do_not_belong_to_the_others(directory, tiny):
    teacher = cf.Params.teacher(tiny, cf.Task(tiny, 2), margin=5.0)
    cf.save(cf.simulate(tiny, 2, engine="steps", save_params=[5], params=teacher), record_path(directory, 2))
    with pytest.raises(FileFault, match="started_from = 'initial' and 'given weights'"):
        cf.load(directory)


def test_a_record_under_another_seeds_name_is_refused(directory, runs):
    cf.save(runs[0], record_path(directory, 2))
    with pytest.raises(FileFault, match=r"seed_2\.npz holds seed 0"):
        cf.load(directory)
    record_path(directory, 2).rename(directory / "seed_02.npz")
    with pytest.warns(UserWarning, match="no finished record of seed 2"):
        assert cf.load(directory).seed.values.tolist() == [0, 1, 3]


def test_seeds_that_are_not_numbered_one_by_one_leave_no_gaps(tmp_path, runs):
    cf.save(runs[0].assign_attrs(seed=20250101), record_path(tmp_path, 20250101))
    assert cf.load(tmp_path).attrs["missing"] == []
    keep_failure(tmp_path, 7, "it diverged", runs[1])
    with pytest.warns(UserWarning, match="no finished record of seed 7"):
        assert cf.load(tmp_path).attrs["missing"] == [7]


def test_weights_are_those_of_their_epoch_in_a_part_of_a_run_too(runs):
    run = runs[0]
    early, late = run.isel(epoch=slice(0, 2)), run.isel(epoch=slice(2, None))
    assert np.array_equal(cf.Params.of(early).m, run.final_m)
    with pytest.raises(ValueError, match=r"epoch = 10 has no saved weights; allowed: \[0, 5, 60\]"):
        cf.Params.of(early, 10)
    assert np.array_equal(cf.Params.of(late, 60).m, run.final_m)
    assert np.array_equal(cf.Params.of(run.isel(epoch=-1), 0).m, run.initial_m)
    with pytest.raises(ValueError, match="epoch = 20"):
        cf.Params.of(late, 20)


def test_what_json_cannot_hold_is_told(runs, tmp_path):
    with pytest.raises(ValueError, match="attributes of the trajectory hold what JSON cannot"):
        cf.save(runs[0].assign_attrs(notes=np.zeros(2)), tmp_path / "x.npz")


def test_a_choice_of_seed_is_asked_for(directory):
    with pytest.raises(ValueError, match="choose one first"):
        cf.Params.of(cf.load(directory, seeds=[0, 1]))


def test_xarray_writes_it_as_netcdf_and_zarr(directory, tmp_path):
    data = cf.load(directory, seeds=[0, 1])
    pytest.importorskip("netCDF4")
    data.to_netcdf(tmp_path / "all.nc")
    with xr.open_dataset(tmp_path / "all.nc") as back:
        assert np.array_equal(back.A, data.A)
    pytest.importorskip("zarr")
    data.to_zarr(tmp_path / "all.zarr")
    with xr.open_zarr(tmp_path / "all.zarr") as back:
        assert np.array_equal(back.rollout_accuracy, data.rollout_accuracy)


def test_a_record_of_another_schema_is_refused(tmp_path, tiny):
    odd = trajectory(tiny, [0, 10], {"R": np.zeros(2)})
    cf.save(odd, tmp_path / "x.npz")
    with pytest.raises(FileFault, match="no learning curve"):
        cf.load(tmp_path / "x.npz")
    with pytest.raises(ValueError, match="no variable B"):
        trajectory(tiny, [0], {"B": np.zeros(1)})


def test_a_theory_carries_no_weights(tiny):
    with pytest.raises(ValueError, match="carries no weights"):
        cf.Params.of(trajectory(tiny, [0, 10], {"A": np.zeros(2)}))
