"""What `cotflow status` and a table can be made of: whatever is damaged, gone, or belongs to somebody else."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

import cotflow as cf
from cotflow.commands.status import status
from cotflow.runs import lock_path
from cotflow.status import STATE, ensemble_of, ensembles_in, held, survey


@pytest.fixture(scope="module")
def swept(tmp_path_factory, tiny) -> Path:
    """Two points whose names are not in alphabetical order, two seeds each."""
    directory = tmp_path_factory.mktemp("swept")
    points = {"second": tiny, "first": tiny.replace(lr=0.25)}
    cf.ensemble(points, range(2), engine="steps", executor=ThreadPoolExecutor(1), out=directory)
    return directory


@pytest.fixture
def copied(swept, tmp_path) -> Path:
    """The same, to be disturbed."""
    return shutil.copytree(swept, tmp_path / "swept")


def test_points_are_told_in_the_order_of_the_grid_wherever_one_looks_from(copied):
    (copied / "second" / "seed_1.npz").unlink()
    assert [row.name for row in survey(copied)] == ["second", "first"]
    above = {row.name: row for row in survey(copied.parent)}
    assert list(above) == ["swept/second", "swept/first"]
    assert above["swept/second"].waiting == [1]
    assert list(ensembles_in(copied.parent)) == ["swept"]


@pytest.mark.parametrize(
    "text",
    ["[]", "null", '"done"', "{}", '{"points": 3, "seeds": [0]}', '{"points": ["a"], "seeds": [0]}',
     '{"points": ["second"], "seeds": ["0"], "running": 0, "seconds_left": null, "written": "now"}',
     '{"points": "second", "seeds": [0], "running": 0, "seconds_left": null, "written": "now"}'],
)  # fmt: skip
def test_a_state_of_another_shape_is_as_if_it_were_not_there(copied, text):
    (copied / STATE).write_text(text)
    assert ensemble_of(copied) is None
    assert [row.name for row in survey(copied)] == ["first", "second"]
    assert cf.tables.sweep_table(copied).seeds.values.tolist() == [2, 2]


def test_a_point_whose_directory_is_gone_is_a_row_without_seeds(copied):
    shutil.rmtree(copied / "first")
    (copied / "second" / "config.toml").write_text("")
    table = cf.tables.sweep_table(copied)
    assert table.point.values.tolist() == ["second", "first"]
    assert table.seeds.values.tolist() == [2, 0]
    assert np.isnan(table.A.values[1])
    assert [row.waiting for row in survey(copied)] == [[], [0, 1]]


def test_a_table_holds_the_points_of_its_ensemble_alone(copied, tiny):
    (copied / "theory" / "second").mkdir(parents=True)
    (copied / "theory" / "second" / "config.toml").write_text(tiny.to_toml())
    shutil.copytree(copied / "first", copied / "dropped")
    assert cf.tables.sweep_table(copied).point.values.tolist() == ["second", "first"]


def test_names_are_shown_as_they_are(tiny, tmp_path, capsys):
    points = {"[red]a": tiny, "[b]c": tiny.replace(lr=0.25)}
    cf.ensemble(points, [0], engine="steps", executor=ThreadPoolExecutor(1), out=tmp_path)
    status(tmp_path)
    told = capsys.readouterr().out
    assert all(name in told for name in points)


@pytest.fixture
def read_only(tiny, tmp_path):
    """The directory of an ensemble on a disk that may only be read; None where no disk may be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False).returncode:
        yield None
        return
    cf.ensemble(tiny, range(2), engine="steps", executor=ThreadPoolExecutor(1), out=disk)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_disk_that_may_only_be_read_can_be_looked_at(read_only):
    if read_only is None:
        pytest.skip("no disk may be mounted here")
    [row] = survey(read_only)
    assert (row.done, row.running) == ([0, 1], [])
    whole = ensemble_of(read_only)
    assert whole is not None
    assert not whole.at_work
    assert cf.tables.sweep_table(read_only).seeds.values.tolist() == [2]


@pytest.fixture
def as_somebody_else(swept):
    """A copy of the swept directory with a secret in it, and what makes this process another user, if it may become one."""
    user = os.geteuid()
    place = Path(tempfile.mkdtemp()).resolve()
    copy, secret = shutil.copytree(swept, place / "swept"), place / "swept" / "first" / "notes"
    secret.mkdir()
    for directory, mode in ((place, 0o755), (copy, 0o755), (secret, 0)):
        directory.chmod(mode)
    yield copy, lambda: os.seteuid(65534) if user == 0 else None
    os.seteuid(user)
    secret.chmod(0o755)
    shutil.rmtree(place)


def test_somebody_else_sees_what_runs_and_is_told_what_may_not_be_read(as_somebody_else):
    swept, become = as_somebody_else
    (swept / "second" / "seed_1.npz").unlink()
    lock = lock_path(swept / "second", 1)
    with FileLock(lock):
        lock.chmod(0o444)
        become()
        assert held(lock)
        rows = {row.name: row for row in survey(swept)}
    assert rows["second"].running == [1]
    assert rows["first"].done == [0, 1]
    assert "denied" in rows["first/notes"].unreadable
    assert not held(lock)
