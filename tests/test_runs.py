"""One seed in a directory: what is refused leaves nothing behind, what is damaged is set aside, what diverges is not done."""

from __future__ import annotations

import resource
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import cotflow as cf
from cotflow.errors import BudgetExceeded, Diverged
from cotflow.files import FileFault
from cotflow.runs import train


@pytest.mark.parametrize("changes", [{}, {"batch_size": 16}], ids=["full batch", "minibatch"])
def test_a_run_that_diverges_in_its_last_step_is_not_done(tiny, changes):
    cfg = tiny.replace(lr=1e25, weight_decay=0.1, train_epochs=2, eval_every=1, **changes)
    with pytest.raises(Diverged, match=r"no longer finite at epoch \d with lr = 1e\+25 \(last finite loss: \d") as failure:
        cf.simulate(cfg, 0, engine="steps")
    assert np.isfinite(failure.value.partial.loss).all()
    assert failure.value.partial.attrs["status"] == "failed"


def test_weights_that_are_not_finite_are_not_kept_as_a_snapshot(tiny):
    cfg = tiny.replace(lr=1e25, weight_decay=0.1, train_epochs=4, eval_every=4)
    with pytest.raises(Diverged):
        cf.simulate(cfg, 0, engine="steps", save_params=[2])


def test_a_loss_that_is_never_finite_is_not_blamed_on_the_learning_rate(tiny):
    with pytest.raises(Diverged, match="not finite at the start, before any step; smaller initial weights"):
        cf.simulate(tiny.replace(init_variance=3e76), 0, engine="steps")


@pytest.mark.parametrize(
    ("seed", "options", "told"),
    [
        (-1, {}, "seed = -1"),
        (0, {"engine": "warp"}, "engine = 'warp' does not exist"),
        (0, {"backend": "jax"}, "backend = 'jax' does not exist"),
        (0, {"threads": 0}, "threads = 0"),
        (0, {"rtol": -1.0}, "rtol = -1.0"),
        (0, {"checkpoint_every": float("nan")}, "checkpoint_every = nan is not allowed; allowed: seconds, 0 or more"),
        (0, {"checkpoint_every": -1}, "checkpoint_every = -1"),
    ],
)
def test_what_is_refused_leaves_no_directory(tiny, tmp_path, seed, options, told):
    with pytest.raises(ValueError, match=told):
        train(tiny, seed, tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


def test_a_directory_belongs_to_one_configuration_once_there_is_something_in_it(tiny, tmp_path):
    with pytest.raises(Diverged):
        train(tiny.replace(lr=1e60), 0, tmp_path, engine="steps")
    train(tiny, 0, tmp_path, engine="steps")
    assert cf.Config.from_toml(tmp_path / "config.toml") == tiny
    with pytest.raises(FileFault, match=r"belongs to another configuration \(lr = 0.5, now 0.1\)"):
        train(tiny.replace(lr=0.1), 5, tmp_path, engine="steps")
    (tmp_path / "config.toml").unlink()
    with pytest.raises(FileFault, match=r"lr = 0.5, now 0.1"):
        train(tiny.replace(lr=0.1), 5, tmp_path, engine="steps")
    assert sorted(path.name for path in tmp_path.glob("*.npz")) == ["seed_0.npz"]


def test_a_configuration_that_a_person_wrote_is_not_overwritten(tiny, tmp_path):
    mine = tmp_path / "config.toml"
    mine.write_text(tiny.to_toml() + "# mine\n")
    with pytest.raises(FileFault, match=r"lr = 0.5, now 0.1"):
        train(tiny.replace(lr=0.1), 0, tmp_path, engine="steps")
    train(tiny, 0, tmp_path, engine="steps")
    assert mine.read_text().endswith("# mine\n")


def test_damaged_files_are_set_aside_and_the_seed_runs_again(tiny, tmp_path):
    before, _ = train(tiny, 0, tmp_path, engine="steps")
    record, rest = tmp_path / "seed_0.npz", tmp_path / "seed_0.checkpoint.npz"
    record.write_bytes(record.read_bytes()[:5000])
    rest.write_bytes(b"PK")
    said: list[str] = []
    after, there = train(tiny, 0, tmp_path, say=said.append, engine="steps")
    assert not there
    assert after.A.identical(before.A)
    assert f"{record} is truncated" in said[0]
    assert "now seed_0.npz.damaged-1, and seed 0 runs again" in said[0]
    assert "now seed_0.checkpoint.npz.damaged-1, and seed 0 begins anew" in said[1]
    assert cf.load(tmp_path).attrs["missing"] == []


def test_what_a_killed_process_left_half_written_goes(tiny, tmp_path):
    litter, other = tmp_path / ".seed_1.npz.abc.tmp", tmp_path / ".seed_11.npz.abc.tmp"
    litter.touch()
    other.touch()
    train(tiny, 1, tmp_path, engine="steps")
    assert not litter.exists()
    assert other.exists()


def test_other_snapshots_make_another_run(tiny, tmp_path):
    train(tiny, 0, tmp_path, engine="steps", save_params=[5, 10])
    assert train(tiny, 0, tmp_path, engine="steps", save_params=(10, 5))[1]
    for asked in ([5], [5, 10, 20], []):
        with pytest.raises(FileFault, match=r"save_params = \[5, 10\], now "):
            train(tiny, 0, tmp_path, engine="steps", save_params=asked)


def test_a_run_that_fails_again_keeps_what_it_had_recorded(tiny, tmp_path):
    for budget in (8, 9):
        with pytest.raises(BudgetExceeded):
            train(tiny, 0, tmp_path, max_gradients=budget, rtol=1e-6, atol=1e-6)
        kept = cf.load(tmp_path / "seed_0.failed.npz")
        assert cf.Params.of(kept).m.shape == (4, 5, 5)


def test_a_full_disk_is_told_with_the_file_and_how_to_go_on(tiny, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*seed_0\.npz'") as caught:
            train(tiny, 0, tmp_path, engine="steps")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.__notes__ == ["make room there, and the same command begins anew"]


def test_two_processes_do_not_settle_for_different_configurations_in_one_directory(tiny, tmp_path):
    """Whoever comes second is refused, or both are where they meet; a directory never holds records of both."""
    for k in range(6):
        place, meet = tmp_path / str(k), threading.Barrier(2)

        def go(seed, lr, place=place, meet=meet):
            meet.wait()
            try:
                train(tiny.replace(lr=lr), seed, place, threads=1)
            except FileFault as refusal:
                return str(refusal)

        with ThreadPoolExecutor(2) as pool:
            refusals = [each for each in pool.map(go, (0, 1), (0.5, 0.25)) if each]
        assert len(refusals) >= 1
        assert all("belongs to another configuration" in each for each in refusals)
        assert len(list(place.glob("seed_?.npz"))) + len(refusals) == 2


def test_two_processes_settle_for_the_same_configuration_where_another_was(tiny, tmp_path):
    for k in range(4):
        place, meet = tmp_path / str(k), threading.Barrier(2)
        place.mkdir()
        (place / "config.toml").write_text(tiny.replace(lr=0.125).to_toml())

        def go(seed, place=place, meet=meet):
            meet.wait()
            return train(tiny, seed, place, threads=1)[1]

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(go, (0, 1))) == [False, False]
        assert cf.load(place).sizes["seed"] == 2


def test_a_run_from_its_own_initial_weights_handed_in_is_taken_up(tiny, tmp_path):
    start = cf.Params.initial(tiny, 0)
    with pytest.raises(BudgetExceeded):
        train(tiny, 0, tmp_path, params=start, max_gradients=5)
    run, there = train(tiny, 0, tmp_path, params=start)
    assert (run.attrs["started_from"], there) == ("given weights", False)
