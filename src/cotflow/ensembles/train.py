"""From points and seeds to records: what is there already, what runs where, who writes it, and what failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xarray as xr
from filelock import FileLock, Timeout

from ..config import Config
from ..engines import ENGINES, engine_name
from ..errors import Failure, Interrupted, PoolLost
from ..files import write_text
from ..params import Params
from ..runs import cause_path, keep, keep_failure, lock_path, settle
from ..status import STATE
from ..trajectory import record_path
from .conduct import conduct
from .jobs import PATIENCE, Held, Job, Outcome
from .options import check_points, require_importable
from .places import cannot_write, claim, look, with_start, writing_in
from .pools import Pool, as_pool
from .watch import Watch


@dataclass
class Records:
    """What came of an ensemble: (point, seed) of finished runs, the runs themselves where none is written, and the failures."""

    done: set[tuple[str, int]] = field(default_factory=set)
    there: set[tuple[str, int]] = field(default_factory=set)
    """Those of them that were finished before."""
    runs: dict[tuple[str, int], xr.Dataset] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)


def train_points(
    points: Mapping[str, Config],
    seeds: Sequence[int],
    options: dict[str, Any],
    executor: Any = None,
    out: Path | None = None,
    *,
    workers: int | None = None,
    shared: bool | None = None,
    progress: bool | None = None,
    only_failed: bool = False,
    starts: Mapping[int, Params] | None = None,
    settled: Callable[[], None] | None = None,
) -> Records:
    """Run every seed of every point that is not finished in `out`; `only_failed` leaves out what did not fail before.

    `starts` holds the weights from which each seed starts, where these are not `Params.initial`; `settled` is called once the
    directory is claimed, nothing in it is refused and its configurations are written.
    """
    check_points(points, options)
    if executor is None:
        require_importable(options)
    pool = as_pool(executor, workers)
    try:
        with claim(out) if out else nullcontext():
            found = look(points, options, out, starts or {})
            if out:
                with writing_in(out):
                    settle({out / name: cfg for name, cfg in points.items()}, with_start(options, starts))
                    if settled:
                        settled()
            left = {name: each.left(seeds, only_failed) for name, each in found.items()}
            there = {(name, seed) for name, each in found.items() for seed in each.done & set(seeds)}
            records = Records(set(there), there)
            watch = Watch(progress, out / STATE if out else None)
            try:
                for note in (note for name, each in found.items() for note in each.set_aside(left[name])):
                    watch.note(note, always=True)
                see = out.resolve() if out and (pool.shares_files if shared is None else shared) else None
                jobs = _jobs(points, left, options, see, starts or {})
                plan = {"points": list(points), "seeds": list(seeds), "engine": engine_name(options.get("engine", ENGINES[0]))}
                watch.begin(jobs, len(records.done), plan)
                _run(jobs, pool, out, records, watch)
            finally:
                watch.end()
    finally:
        with suppress(KeyboardInterrupt):  # of somebody who no longer waits for workers to leave; the reason is on its way
            pool.close()
    return records


def _jobs(
    points: Mapping[str, Config],
    left: Mapping[str, list[int]],
    options: dict[str, Any],
    see: Path | None,
    starts: Mapping[int, Params],
) -> list[Job]:
    """A job for every seed that is left; workers that see the directory keep its files themselves."""
    jobs = []
    for name, seeds in left.items():
        for seed in seeds:
            start = {"params": starts[seed]} if seed in starts else {}
            jobs.append(Job(name, points[name], seed, {**options, **start}, see / name if see else None))
    return jobs


def _run(jobs: list[Job], pool: Pool, out: Path | None, records: Records, watch: Watch) -> None:
    """Run jobs, with every outcome in the records and on the watch."""
    deaths = 0

    def over(job: Job, outcome: Outcome) -> None:
        if outcome.status == "unwritable" and outcome.error:
            raise outcome.error
        watch.over(job, write_outcome(job, outcome, out, records))

    def tick() -> None:
        nonlocal deaths
        if pool.deaths > deaths:
            deaths = pool.deaths
            watch.note("a worker process died; another takes its place and does its work again")
        watch.tick(pool.running(), pool.remark)

    def halting(why: BaseException, running: int) -> None:
        if running:
            told = str(why) if isinstance(why, KeyboardInterrupt) else cannot_write(why)
            watch.note(f"{told}; waiting for {running} run{'s' if running > 1 else ''} to come to rest", always=True)

    try:
        conduct(jobs, pool, over, tick, halting)
    except (KeyboardInterrupt, PoolLost, OSError) as reason:
        raise _in_context(reason, out, len(records.done), len(jobs) + watch.there) from None


def write_outcome(job: Job, outcome: Outcome, out: Path | None, records: Records) -> Outcome:
    """Take an outcome into the records, write what the worker did not, and return what came of it."""
    place = out / job.point if out else None
    if outcome.status == "done" and outcome.run is not None and place:
        try:
            with FileLock(lock_path(place, job.seed), timeout=PATIENCE):
                keep(outcome.run, place, job.seed)
        except Timeout:
            outcome = Outcome("busy", cause=f"seed {job.seed} in {place} is being trained by another process")
    elif outcome.status == "done" and outcome.run is not None:
        records.runs[job.point, job.seed] = outcome.run
    if outcome.status == "done":
        records.done.add((job.point, job.seed))
        return outcome
    kind = Held if outcome.status == "busy" else Failure
    records.failures.append(kind(job.point, job.seed, outcome.cause))
    if place and outcome.status == "failed":
        with suppress(Timeout), FileLock(lock_path(place, job.seed), timeout=1.0):  # else another process tries it again
            _write_failure(job, outcome, place)
    return outcome


def _write_failure(job: Job, outcome: Outcome, place: Path) -> None:
    """Write why a run failed, unless another process has finished it meanwhile; a worker that writes has written the rest."""
    if record_path(place, job.seed).exists():
        return
    if job.directory is None:
        keep_failure(place, job.seed, outcome.cause, outcome.run, outcome.for_good)
    else:
        write_text(cause_path(place, job.seed), outcome.cause + "\n")


def _in_context(reason: BaseException, out: Path | None, done: int, total: int) -> BaseException:
    """The same end, with what is safe and how to go on."""
    if out is None:
        kept = "nothing was kept, as no directory was given"
    else:
        kept = f"{done} of {total} runs are recorded in {out}; the same command goes on from there"
    if isinstance(reason, OSError):
        return OSError(f"{cannot_write(reason)} ({reason}); {kept}")
    if isinstance(reason, KeyboardInterrupt):
        return Interrupted(f"{reason if reason.args else 'interrupted twice'}; {kept}")
    return type(reason)(f"{reason}; {kept}")
