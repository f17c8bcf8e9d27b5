"""The directory of an ensemble: what is there is whole and of the same runs, or it is set aside or refused with a word."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from filelock import FileLock

import cotflow as cf
from cotflow.ensembles.jobs import Held, Job, Outcome
from cotflow.ensembles.train import Records, train_points, write_outcome
from cotflow.files import FileFault
from cotflow.runs import lock_path
from cotflow.status import LOCK
from cotflow.trajectory import checkpoint_path


def test_another_configuration_in_the_same_directory_is_refused_with_the_difference(tiny, tmp_path):
    threads = ThreadPoolExecutor(1)
    cf.ensemble(tiny, [0], engine="steps", out=tmp_path, executor=threads)
    with pytest.raises(FileFault, match=r"another configuration \(lr = 0.5, now 0.25\)"):
        cf.ensemble(tiny.replace(lr=0.25), [0], engine="steps", out=tmp_path, executor=threads)
    with pytest.raises(FileFault, match=r"another run \(engine = 'steps', now 'leap'\)"):
        cf.ensemble(tiny, [0], engine="leap", out=tmp_path, executor=threads)


def left_half_finished(directory, cfg, seed: int = 0, **options) -> None:
    """A checkpoint, as a run that was killed leaves it."""

    def die(progress) -> None:
        if progress.epoch > 0:
            raise ProcessLookupError

    directory.mkdir(parents=True, exist_ok=True)
    with pytest.raises(ProcessLookupError):
        cf.simulate(cfg, seed, checkpoint=checkpoint_path(directory, seed), checkpoint_every=0.0, progress=die, **options)


@pytest.mark.parametrize("left", ["record", "checkpoint"])
@pytest.mark.parametrize(
    ("before", "now", "difference"),
    [
        ({"engine": "steps"}, {"engine": "leap"}, r"\(engine = 'steps', now 'leap'\)"),
        ({"rtol": 1e-4}, {}, r"\(rtol = 0.0001, now 1e-05\)"),
        ({"save_params": [10]}, {}, r"\(save_params = \[10\], now \[\]\)"),
    ],
    ids=["engine", "tolerance", "snapshots"],
)
def test_runs_of_another_kind_are_refused_before_anything_is_computed(tiny, tmp_path, left, before, now, difference):
    threads, place = ThreadPoolExecutor(1), tmp_path / "b"
    points = {"a": tiny.replace(lr=0.25), "b": tiny}
    if left == "checkpoint":
        left_half_finished(place, tiny, **before)
    else:
        cf.ensemble({"b": tiny}, [0], executor=threads, out=tmp_path, **before)
    there = sorted(tmp_path.rglob("*"))
    with pytest.raises(FileFault, match=rf"seed_0\S*npz holds another run {difference}; move it away or use another directory"):
        cf.ensemble(points, [1, 2], executor=threads, out=tmp_path, **now)
    assert {path.name for path in set(tmp_path.rglob("*")) - set(there)} <= {LOCK}
    assert cf.ensemble(points, [0, 1], executor=threads, out=tmp_path, **before)["b"].seed.values.tolist() == [0, 1]


def test_runs_that_started_elsewhere_are_refused_before_anything_is_computed(tiny, tmp_path):
    options, threads = {"engine": "steps"}, ThreadPoolExecutor(1)
    first, other = ({seed: cf.Params.initial(tiny, seed + shift) for seed in (0, 1)} for shift in (5, 6))
    train_points({"": tiny}, [0], options, threads, tmp_path, starts=first)
    left_half_finished(tmp_path, tiny, 1, params=first[1], **options)
    with pytest.raises(FileFault, match=r"seed_0.npz holds another run \(start = 'given weights', now 'initial'\)"):
        train_points({"": tiny}, [2], options, threads, tmp_path)
    for seed in (0, 1):
        with pytest.raises(FileFault, match=rf"seed_{seed}\S*npz .* \(start = 'given weights', now 'other weights'\)"):
            train_points({"": tiny}, [seed], options, threads, tmp_path, starts={seed: other[seed]})
    assert train_points({"": tiny}, [0, 1], options, threads, tmp_path, starts=first).done == {("", 0), ("", 1)}


def test_a_damaged_record_of_a_seed_that_nobody_asked_for_is_named_and_set_aside(tiny, tmp_path):
    threads = ThreadPoolExecutor(1)
    cf.ensemble(tiny, range(2), engine="steps", executor=threads, out=tmp_path)
    (tmp_path / "seed_1.npz").write_bytes(b"PK")
    with pytest.warns(UserWarning, match=r"seed_1.npz is truncated.* seed 1 runs again when it is asked for"):
        cf.ensemble(tiny, [0], engine="steps", executor=threads, out=tmp_path)
    assert cf.tables.sweep_table(tmp_path).seeds.values.tolist() == [1]
    assert (tmp_path / "seed_1.npz.damaged-1").read_bytes() == b"PK"


def test_an_empty_configuration_is_none(tiny, tmp_path):
    (tmp_path / "config.toml").touch()
    cf.ensemble(tiny, [0], engine="steps", executor=ThreadPoolExecutor(1), out=tmp_path)
    assert cf.Config.from_toml(tmp_path / "config.toml") == tiny


def test_a_damaged_record_is_named_set_aside_and_run_again(tiny, tmp_path, capfd):
    threads = ThreadPoolExecutor(1)
    before = cf.ensemble(tiny, range(3), engine="steps", out=tmp_path, executor=threads)
    record = tmp_path / "seed_1.npz"
    content = bytearray(record.read_bytes())
    content[4000:4600] = bytes(600)
    record.write_bytes(content)
    (tmp_path / "seed_2.npz").rename(tmp_path / "seed_2.checkpoint.npz")  # not a checkpoint
    (tmp_path / "seed_2.checkpoint.npz").write_bytes(b"PK")
    after = cf.ensemble(tiny, range(3), engine="steps", out=tmp_path, executor=threads, progress=True)
    said = capfd.readouterr().err
    assert f"{record} is " in said
    assert "seed 1 runs again" in said
    assert "seed 2 begins anew" in said
    assert (tmp_path / "seed_1.npz.damaged-1").read_bytes() == content
    assert after.A.equals(before.A)


def test_a_seed_that_another_process_took_meanwhile_is_left_to_it(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("cotflow.ensembles.train.PATIENCE", 0.1)
    records = Records()
    with FileLock(lock_path(tmp_path, 3)):
        came = write_outcome(Job("", tiny, 3), Outcome("done", cf.simulate(tiny, 3, engine="steps")), tmp_path, records)
    assert came.status == "busy"
    assert [type(failure) for failure in records.failures] == [Held]
    assert not records.done
    assert not list(tmp_path.glob("*.npz"))
