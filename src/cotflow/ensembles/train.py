"""From points and seeds to records: what is there already, what runs where, who writes it, and what failed."""

from __future__ import annotations

import errno
import inspect
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xarray as xr
from filelock import FileLock

from ..config import Config
from ..engines import ENGINES, engine_name, refuse, simulate
from ..errors import Failure, Interrupted, PoolLost
from ..files import write_text
from ..gradients import BACKENDS
from ..params import Params
from ..runs import cause_path, keep, keep_failure, lock_path
from ..status import STATE
from .conduct import conduct
from .jobs import PATIENCE, Job, Outcome
from .places import claim, failed, finished, settle
from .pools import Pool, as_pool
from .watch import Watch

_OPTIONS = set(inspect.signature(simulate).parameters) - {"cfg", "seed", "params", "checkpoint", "progress"}


@dataclass
class Records:
    """What came of an ensemble: (point, seed) of finished runs, the runs themselves where none is written, and the failures."""

    done: set[tuple[str, int]] = field(default_factory=set)
    runs: dict[tuple[str, int], xr.Dataset] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options for `simulate`, one thread a run unless another number is given; unknown ones are refused before work begins."""
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise ValueError(f"ensemble takes no option {', '.join(unknown)}; allowed: {', '.join(sorted(_OPTIONS))}")
    for name, allowed in (("engine", ENGINES), ("backend", BACKENDS)):
        if isinstance(given := options.get(name), str) and given not in allowed:
            raise ValueError(f"{name} = {given!r} does not exist; allowed: {', '.join(allowed)}")
    given = {key: value for key, value in options.items() if value is not None}
    return {"threads": 1, **given} if given.get("backend", "fused") == "fused" else given


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
) -> Records:
    """Run every seed of every point that is not finished in `out`; `only_failed` leaves out what did not fail before.

    `starts` holds the weights from which each seed starts, where these are not `Params.initial`.
    """
    for name, cfg in points.items():
        try:
            refuse(cfg, options.get("engine", ENGINES[0]), options.get("backend", BACKENDS[0]))
        except ValueError as refusal:
            raise ValueError(f"{name}: {refusal}" if name else str(refusal)) from None
    if executor is None:
        _require_importable(options)
    pool = as_pool(executor, workers)
    try:
        with claim(out) if out else nullcontext():
            return _train(points, seeds, options, pool, out, shared, progress, only_failed, starts or {})
    finally:
        pool.close()


def _train(
    points: Mapping[str, Config],
    seeds: Sequence[int],
    options: dict[str, Any],
    pool: Pool,
    out: Path | None,
    shared: bool | None,
    progress: bool | None,
    only_failed: bool,
    starts: Mapping[int, Params],
) -> Records:
    records = Records()
    watch = Watch(progress, out / STATE if out else None)
    see = out.resolve() if out and (pool.shares_files if shared is None else shared) else None
    jobs: list[Job] = []
    if out:
        settle({out / name: cfg for name, cfg in points.items()})
    for name, cfg in points.items():
        left = set(seeds)
        if out:
            there, notes = finished(out / name, cfg, seeds, options, starts)
            records.done |= {(name, seed) for seed in there}
            left = (failed(out / name, seeds) if only_failed else left) - there
            for note in notes:
                watch.note(note)
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
        watch.tick(pool.running())

    try:
        conduct(jobs, pool, over, tick)
    except (Interrupted, PoolLost, OSError) as reason:
        raise _in_context(reason, out, len(records.done), len(jobs) + watch.there) from None
    finally:
        watch.end()
    return records


def _require_importable(options: Mapping[str, Any]) -> None:
    """Refuse one's own engine or backend where worker processes cannot find it: they do not import the caller's script."""
    for name in ("engine", "backend"):
        value = options.get(name)
        home = value if callable(value) else type(value)
        if home.__module__ == "__main__":
            raise ValueError(
                f"{name} {home.__name__} is defined in the script itself, which worker processes do not import; put it into a "
                "module of its own, or run in threads: executor=ThreadPoolExecutor(2)"
            )


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
    records.failures.append(Failure(job.point, job.seed, outcome.cause))
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
        full = reason.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        return OSError(f"{'no room left to write' if full else 'cannot write'} ({reason}); {kept}")
    return type(reason)(f"{reason}; {kept}")
