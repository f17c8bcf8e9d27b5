"""From points and seeds to records: what is there already, what runs where, who writes it, and what failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xarray as xr
from filelock import FileLock

from ..config import Config
from ..engines import ENGINES, engine_name
from ..errors import Failure, Interrupted, PoolLost
from ..files import write_text
from ..params import Params
from ..runs import cause_path, keep, keep_failure, lock_path, settle
from ..status import STATE
from .conduct import conduct
from .jobs import PATIENCE, Held, Job, Outcome
from .options import check_points, require_importable
from .places import cannot_write, claim, failed, finished, writing_in
from .pools import Pool, as_pool
from .watch import Watch


@dataclass
class Records:
    """What came of an ensemble: (point, seed) of finished runs, the runs themselves where none is written, and the failures."""

    done: set[tuple[str, int]] = field(default_factory=set)
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
    directory is claimed and its configurations are written.
    """
    check_points(points, options)
    if executor is None:
        require_importable(options)
    pool = as_pool(executor, workers)
    try:
        with claim(out) if out else nullcontext():
            watch = Watch(progress, out / STATE if out else None)
            try:
                if out:
                    with writing_in(out):
                        settle({out / name: cfg for name, cfg in points.items()})
                        if settled:
                            settled()
                return _train(points, seeds, options, pool, out, shared, watch, only_failed, starts or {})
            finally:
                watch.end()
    finally:
        pool.close()


def _train(
    points: Mapping[str, Config],
    seeds: Sequence[int],
    options: dict[str, Any],
    pool: Pool,
    out: Path | None,
    shared: bool | None,
    watch: Watch,
    only_failed: bool,
    starts: Mapping[int, Params],
) -> Records:
    records = Records()
    see = out.resolve() if out and (pool.shares_files if shared is None else shared) else None
    jobs: list[Job] = []
    for name, cfg in points.items():
        left = set(seeds)
        if out:
            there, notes = finished(out / name, cfg, seeds, options, starts)
            records.done |= {(name, seed) for seed in there}
            left = (failed(out / name, seeds) if only_failed else left) - there
            for note in notes:
                watch.note(note, always=True)
        for seed in sorted(left):
            start = {"params": starts[seed]} if seed in starts else {}
            jobs.append(Job(name, cfg, seed, {**options, **start}, see / name if see else None))
    plan = {"points": list(points), "seeds": list(seeds), "engine": engine_name(options.get("engine", ENGINES[0]))}
    watch.begin(jobs, len(records.done), plan)
    deaths = 0

    def over(job: Job, outcome: Outcome) -> None:
        if outcome.status == "unwritable" and outcome.error:
            raise outcome.error
        write_outcome(job, outcome, out, records)
        watch.over(job, outcome)

    def tick() -> None:
        nonlocal deaths
        if pool.deaths > deaths:
            deaths = pool.deaths
            watch.note("a worker process died; another takes its place and does its work again")
        watch.tick(pool.running(), pool.remark)

    try:
        conduct(jobs, pool, over, tick)
    except (KeyboardInterrupt, PoolLost, OSError) as reason:
        raise _in_context(reason, out, len(records.done), len(jobs) + watch.there) from None
    return records


def write_outcome(job: Job, outcome: Outcome, out: Path | None, records: Records) -> None:
    """Take an outcome into the records, and write what the worker did not."""
    place = out / job.point if out else None
    if outcome.status == "done":
        if outcome.run is not None and place:
            with FileLock(lock_path(place, job.seed), timeout=PATIENCE):
                keep(outcome.run, place, job.seed)
        elif outcome.run is not None:
            records.runs[job.point, job.seed] = outcome.run
        records.done.add((job.point, job.seed))
        return
    kind = Held if outcome.status == "busy" else Failure
    records.failures.append(kind(job.point, job.seed, outcome.cause))
    if place and outcome.status == "failed":
        if outcome.run is not None and job.directory is None:
            keep_failure(place, job.seed, outcome.cause, outcome.run)
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
