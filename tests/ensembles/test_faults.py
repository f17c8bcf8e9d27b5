"""Whatever befalls an ensemble: nothing is lost, nothing is done twice, and what is written is whole."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import subprocess
import threading
import time
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor

import pytest

import cotflow as cf
from cotflow.ensembles.conduct import conduct
from cotflow.ensembles.jobs import Job
from cotflow.ensembles.pools import Given, as_pool
from cotflow.errors import EnsembleFailed, Interrupted, PoolLost
from cotflow.runs import Busy
from cotflow.status import LOCK, survey
from cotflow.trajectory import checkpoint_path
from disturbed import is_held, same_records, wait_for


def test_a_killed_worker_is_replaced_and_its_seed_runs_again(brief, undisturbed, tmp_path, capfd):
    killed = []

    def kill_one() -> None:
        wait_for(lambda: any((tmp_path / f".seed_{seed}.lock").exists() for seed in range(4)) and workers())
        wait_for(lambda: is_held(tmp_path / ".seed_2.lock"))
        killed.append(workers()[0])
        os.kill(killed[0], signal.SIGKILL)

    def workers() -> list[int]:
        return [process.pid for process in multiprocessing.active_children() if process.pid]

    killer = threading.Thread(target=kill_one)
    killer.start()
    runs = cf.ensemble(brief, range(5), engine="steps", out=tmp_path, checkpoint_every=0.1, workers=2, progress=True)
    killer.join()
    assert len(killed) == 1
    assert "a worker process died" in capfd.readouterr().err
    assert runs.seed.values.tolist() == list(range(5))
    assert same_records(tmp_path, undisturbed)


def test_a_sweep_interrupted_then_killed_then_resumed_ends_with_the_same_bits(grid, undisturbed, sweep, tmp_path):
    out = tmp_path / "out"

    def halves() -> set[str]:
        return {path.name for path in out.glob("seed_*.checkpoint.npz")}

    first = sweep(grid, out)
    wait_for(halves)
    first.signal_all(signal.SIGINT)
    code, _, complaints = first.end()
    assert code == 130
    [last] = [line for line in complaints.splitlines() if line.startswith("cotflow:")]
    assert "interrupted" in last
    assert "the same command goes on from there" in last
    assert "Traceback" not in complaints
    assert halves()

    second = sweep(grid, out)
    wait_for(lambda: list(out.glob("seed_?.npz")) and halves())
    os.kill(second.process.pid, signal.SIGKILL)
    wait_for(lambda: not second.group())  # workers leave by themselves, and write checkpoints before they do
    assert halves()
    assert not list(out.glob(".*.tmp"))

    done = {path.name: path.stat().st_mtime_ns for path in out.glob("seed_?.npz")}
    third = sweep(grid, out)
    assert third.end()[0] == 0
    assert same_records(out, undisturbed)
    assert len(list(out.glob("seed_?.npz"))) == 5
    assert done == {name: (out / name).stat().st_mtime_ns for name in done}


def test_a_second_ensemble_in_the_same_directory_is_refused(brief, tmp_path):
    refused, occupied = threading.Event(), ThreadPoolExecutor(1)
    occupied.submit(refused.wait)  # so that the first cannot end before the second has been refused
    first = ThreadPoolExecutor(1).submit(cf.ensemble, brief, range(3), engine="steps", out=tmp_path, executor=occupied)
    try:
        wait_for(lambda: is_held(tmp_path / LOCK))
        with pytest.raises(Busy, match="is being worked on by another ensemble"):
            cf.ensemble(brief, range(3), engine="steps", out=tmp_path, executor=ThreadPoolExecutor(1))
    finally:
        refused.set()
    assert first.result().sizes["seed"] == 3


@pytest.fixture
def small_disk(tmp_path):
    """A directory on a disk of 64 KB, and how to make it larger; None where no disk may be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        yield None
        return
    yield disk, lambda: subprocess.run(["mount", "-o", "remount,size=1m", disk], check=True)
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_full_disk_is_told_and_what_exists_stays_valid(small_disk, tiny, tmp_path):
    if small_disk is None:
        pytest.skip("no disk may be mounted here; the limit on file size stands for it below")
    disk, enlarge = small_disk
    with pytest.raises(OSError, match=r"no room left to write .* runs are recorded in .*; the same command goes on"):
        cf.ensemble(tiny, range(12), engine="steps", out=disk, executor=ThreadPoolExecutor(1))
    [row] = survey(disk)
    assert 0 < len(row.done) < 12
    assert cf.load(disk, row.done).sizes["seed"] == len(row.done)
    assert not list(disk.glob(".*.tmp"))
    enlarge()
    assert cf.ensemble(tiny, range(12), engine="steps", out=disk, executor=ThreadPoolExecutor(1)).sizes["seed"] == 12


def test_records_that_cannot_be_written_whole_are_not_written(tiny, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"no room left to write .*0 of 3 runs"):
            cf.ensemble(tiny, range(3), engine="steps", out=tmp_path, executor=ThreadPoolExecutor(1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.glob("seed_?.npz"))
    assert not list(tmp_path.glob(".*.tmp"))


def test_one_diverging_configuration_is_recorded_and_the_others_finish(tiny, tmp_path):
    points = {"good": tiny, "bad": tiny.replace(lr=1e60), "also good": tiny.replace(lr=0.25)}
    with pytest.raises(EnsembleFailed, match=r"2 of 6 runs failed: bad seeds 0:2: for example .* no longer finite") as caught:
        cf.ensemble(points, range(2), engine="steps", out=tmp_path, executor=ThreadPoolExecutor(1))
    assert {failure.point for failure in caught.value.failures} == {"bad"}
    assert caught.value.results["good"].sizes["seed"] == caught.value.results["also good"].sizes["seed"] == 2
    rows = {row.name: row for row in survey(tmp_path)}
    assert rows["bad"].failed == [0, 1]
    assert "no longer finite" in rows["bad"].causes[0]
    kept = cf.ensemble(points, range(2), engine="steps", out=tmp_path, executor=ThreadPoolExecutor(1), keep_going=True)
    assert kept["bad"].attrs["missing"] == [0, 1]


def test_ctrl_c_reaches_runs_in_threads(brief, undisturbed, tmp_path):
    threads, rest = ThreadPoolExecutor(1), checkpoint_path(tmp_path, 0)

    def interrupt() -> None:
        wait_for(rest.exists)
        os.kill(os.getpid(), signal.SIGINT)

    killer = threading.Thread(target=interrupt)
    killer.start()
    with (
        pytest.warns(UserWarning, match="interrupted; waiting for 1 run to come to rest"),
        pytest.raises(KeyboardInterrupt, match=r"interrupted; 0 of 3 runs are recorded in .*; the same command goes on"),
    ):
        cf.ensemble(brief, range(3), engine="steps", executor=threads, out=tmp_path, checkpoint_every=0.05)
    killer.join()
    assert rest.exists()
    assert not list(tmp_path.glob("seed_?.npz"))
    threads.submit(int).result(timeout=5)  # nothing else occupies the thread
    cf.ensemble(brief, range(3), engine="steps", executor=threads, out=tmp_path)
    assert same_records(tmp_path, undisturbed)


def test_ctrl_c_after_the_last_run_stops_what_would_follow(tiny):
    """As when it comes while the workers leave, and a report is to be written next."""
    pool, outcomes = as_pool(ThreadPoolExecutor(1), None), []
    close = pool.close

    def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        close()

    pool.close = interrupted
    with pytest.raises(Interrupted):
        conduct([Job("", tiny, 0)], pool, lambda job, outcome: outcomes.append(outcome), lambda: None, lambda why, running: None)
    assert [outcome.status for outcome in outcomes] == ["done"]


@pytest.mark.parametrize("signals", [2 * [signal.SIGTERM], 3 * [signal.SIGINT]], ids=["SIGTERM twice", "SIGINT thrice"])
def test_impatience_ends_with_how_to_go_on_too(grid, sweep, tmp_path, signals):
    run = sweep(grid, tmp_path / "out")
    wait_for(lambda: list((tmp_path / "out").glob("seed_*.checkpoint.npz")))
    for number in signals:
        os.kill(run.process.pid, number)
        time.sleep(0.1)
    code, _, complaints = run.end()
    assert code == 130
    assert any(line.startswith("cotflow: interrupted") and "the same command goes on" in line for line in complaints.splitlines())


def test_ctrl_c_while_workers_leave_does_not_take_the_last_word(tiny, tmp_path):
    class Slow(Given):
        """Every wait for it is cut short by Ctrl-C."""

        def submit(self, job, over):
            raise KeyboardInterrupt

        def close(self) -> None:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match=r"interrupted twice; 0 of 1 runs are recorded in .*; the same command goes on"):
        cf.ensemble(tiny, [0], executor=Slow(ThreadPoolExecutor(1)), out=tmp_path)


def test_an_executor_that_breaks_ends_the_ensemble_with_what_is_recorded(tiny, tmp_path):
    class Breaking(ThreadPoolExecutor):
        """Takes two tasks and no more."""

        taken = 0

        def submit(self, fn, /, *args, **kwargs):
            self.taken += 1
            if self.taken > 2:
                raise BrokenExecutor("a worker vanished")
            return super().submit(fn, *args, **kwargs)

    with pytest.raises(PoolLost, match=r"executor is broken \(a worker vanished\); \d of 5 runs are recorded in"):
        cf.ensemble(tiny, range(5), engine="steps", out=tmp_path, executor=Breaking(1))
    assert not list(tmp_path.glob(".*.tmp"))
    assert cf.ensemble(tiny, range(5), engine="steps", out=tmp_path, executor=ThreadPoolExecutor(1)).sizes["seed"] == 5
