"""Workers as Slurm jobs: a stand-in for Slurm on this machine takes the scripts, runs them, lists and cancels them."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

import cotflow as cf
from cotflow.ensembles.jobs import Job
from disturbed import same, wait_for

pytest.importorskip("dask_jobqueue")

SBATCH = """#!/bin/sh
cd "{place}"
id=$$
cp "$1" "job_$id"
setsid sh "job_$id" > "output_$id" 2>&1 < /dev/null &
echo $! > "pid_$id"
echo "Submitted batch job $id"
"""
SQUEUE = """#!/bin/sh
cd "{place}"
for file in pid_*; do kill -0 -- -$(cat $file) 2> /dev/null && echo ${{file#pid_}}; done
true
"""
SCANCEL = """#!/bin/sh
kill -TERM -- -$(cat "{place}/pid_$1")
"""


def install(place: Path, **programs: str) -> Path:
    """Put programs into a directory of their own, for the PATH."""
    folder = place / "bin"
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(text.format(place=place))
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def slurm(tmp_path):
    """A directory in which jobs run, with sbatch, squeue and scancel; no job outlives the test."""
    place = tmp_path / "slurm"
    place.mkdir()
    install(place, sbatch=SBATCH, squeue=SQUEUE, scancel=SCANCEL)
    yield place
    for file in place.glob("pid_*"):
        with suppress(ProcessLookupError):
            os.killpg(int(file.read_text()), signal.SIGKILL)


def jobs(place: Path) -> list[int]:
    """Jobs that run."""
    alive = []
    for file in place.glob("pid_*"):
        with suppress(ProcessLookupError, ValueError):
            os.killpg(int(file.read_text()), 0)
            alive.append(int(file.name.removeprefix("pid_")))
    return sorted(alive)


def test_a_job_that_ends_early_has_another_take_its_place(slurm, grid, undisturbed, sweep, tmp_path):
    out = tmp_path / "out"
    run = sweep(grid, out, "--slurm", "--seeds", "0:12", path=slurm / "bin")
    wait_for(lambda: list(out.glob("seed_*.npz")))
    [first, *_] = jobs(slurm)
    os.killpg(int((slurm / f"pid_{first}").read_text()), signal.SIGKILL)
    code, _, complaints = run.end()
    assert code == 0, complaints
    assert "12 of 12 done" in complaints
    assert len(list(slurm.glob("job_*"))) == 2
    assert len(cf.load(out).seed) == 12
    assert all(same(cf.load(out / f"seed_{seed}.npz"), cf.load(undisturbed / f"seed_{seed}.npz")) for seed in range(5))
    wait_for(lambda: not jobs(slurm))


def test_no_job_is_asked_for_where_nothing_is_left_to_run(slurm, grid, undisturbed, sweep, tmp_path):
    out = shutil.copytree(undisturbed, tmp_path / "out")
    code, _, complaints = sweep(grid, out, "--slurm", path=slurm / "bin").end()
    assert code == 0, complaints
    assert "5 of 5 done" in complaints
    assert not list(slurm.glob("job_*"))


@pytest.mark.parametrize(("jobs", "runs", "asked"), [(10, 5, [1, 2, 3]), (2, 7, [1, 2])])
def test_no_more_jobs_are_asked_for_than_runs_can_use(tiny, monkeypatch, jobs, runs, asked):
    from cotflow.ensembles.dask import Dask
    from cotflow.ensembles.slurm import Slurm

    class Cluster:
        """Jobs of two workers each, as far as a pool asks for them."""

        _dummy_job = SimpleNamespace(worker_processes=2)

        def __init__(self) -> None:
            self.worker_spec: dict[str, None] = {}
            self.scaled: list[int] = []

        def scale(self, jobs: int) -> None:
            self.scaled.append(jobs)
            self.worker_spec = {str(number): None for number in range(jobs)}

    monkeypatch.setattr(Dask, "submit", lambda self, job, over: self._futures.setdefault(str(job), job))
    cluster = Cluster()
    pool = Slurm(SimpleNamespace(asynchronous=False), cluster, jobs)  # type: ignore[arg-type]
    for seed in range(runs):
        pool.submit(Job("", tiny, seed), print)
    assert cluster.scaled == asked


def test_the_job_asks_for_what_was_asked_for(slurm, monkeypatch):
    monkeypatch.setenv("PATH", str(slurm / "bin"), prepend=os.pathsep)
    from cotflow.ensembles import slurm as module

    with module.slurm(
        cores=4, memory="16GB", walltime="02:30:00", queue="compute", account="physics", directives=["--exclusive"],
        scheduler_options={"dashboard_address": None}, interface="lo",
    ) as cluster:  # fmt: skip
        script = cluster.job_script()
    lines = script.splitlines()
    for wanted in ("-p compute", "-A physics", "--cpus-per-task=4", "--mem=15G", "-t 02:30:00", "--exclusive"):
        assert f"#SBATCH {wanted}" in lines, script
    assert "--nthreads 1 " in script
    assert "--nworkers 4 " in script


@pytest.mark.parametrize(
    ("sbatch", "told"),
    [
        (
            '#!/bin/sh\necho "sbatch: error: invalid partition specified: compute" >&2\nexit 1\n',
            "sbatch did not take the jobs (sbatch: error: invalid partition specified: compute)",
        ),
        (SBATCH.replace('cp "$1"', "echo true >"), "Slurm jobs ended before a worker of theirs connected"),
    ],
    ids=["refused", "ended"],
)
def test_jobs_that_cannot_be_had_are_told(grid, sweep, tmp_path, sbatch, told):
    programs = install(tmp_path, sbatch=sbatch, squeue=SQUEUE, scancel=SCANCEL)
    code, _, complaints = sweep(grid, tmp_path / "out", "--slurm", "--queue", "compute", path=programs).end()
    assert code == 1
    [last] = [line for line in complaints.splitlines() if line.startswith("cotflow:")]
    assert told in last
    assert "0 of 5 runs are recorded" in last
    assert "Traceback" not in complaints


def test_without_slurm_it_is_told(grid, sweep, tmp_path):
    code, _, complaints = sweep(grid, tmp_path / "out", "--slurm").end()
    assert code == 1
    assert complaints.splitlines()[-1].startswith("cotflow: there is no sbatch on the PATH")
