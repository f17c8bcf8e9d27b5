"""A trajectory comes back from its file as it went, alone or with other seeds."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import cotflow as cf
from cotflow.files import FileFault
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
