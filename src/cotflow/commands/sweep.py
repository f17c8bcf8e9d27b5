"""`cotflow sweep`: a grid of configurations, many seeds each, on this machine or on a cluster."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ..ensembles import told
from ..ensembles.grid import Grid, read_grid
from ..ensembles.jobs import Held
from ..ensembles.options import check_options, check_points
from ..ensembles.places import Found, look
from ..ensembles.pools import check_workers
from ..ensembles.train import Records, train_points
from ..errors import EnsembleFailed
from ..files import write_text
from ..seeds import parse_seeds, write_seeds
from .options import SeedsFlag, Whole
from .summary import summarise

#: What Dask and Slurm read as memory and wall time.
FORMS = {
    "memory": (r"\d+(\.\d+)? ?([kmgtp]i?)?b?", "a number of bytes with its unit, as 4GB or 512MiB"),
    "walltime": (r"(\d+-)?\d+(:\d\d){0,2}", "minutes, hours:minutes:seconds, or days-hours:minutes:seconds"),
}


@Parameter(name="*", group="Cluster")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Where:
    """Where the runs run; by default in processes of this machine."""

    workers: Annotated[Whole, Parameter(help="Processes on this machine; by default as many as cores.")] = None
    scheduler: Annotated[str | None, Parameter(help="Address of a running Dask scheduler, as tcp://host:8786.")] = None
    slurm: Annotated[bool, Parameter(help="Start workers as Slurm jobs through dask-jobqueue.", negative=())] = False
    jobs: Annotated[int, Parameter(help="Slurm jobs.")] = 1
    cores: Annotated[int, Parameter(help="Cores of a Slurm job, one worker process each.")] = 1
    memory: Annotated[str, Parameter(help="Memory of a Slurm job.")] = "4GB"
    walltime: Annotated[str, Parameter(help="Wall time of a Slurm job.")] = "01:00:00"
    queue: Annotated[str | None, Parameter(help="Slurm partition.")] = None
    account: Annotated[str | None, Parameter(help="Slurm account.")] = None
    shared: Annotated[
        bool, Parameter(help="Cluster workers see --out too, and write checkpoints and records there.", negative=())
    ] = False

    def check(self) -> None:
        """Refuse flags that do not go together, or mean nothing, before anything is begun."""
        if self.scheduler is not None and self.slurm:
            raise ValueError("--scheduler and --slurm exclude each other")
        if self.workers is not None and (self.slurm or self.scheduler is not None):
            raise ValueError("--workers is for processes of this machine; with --slurm the workers are --jobs times --cores")
        check_workers(self.workers)
        for flag in ("jobs", "cores", "memory", "walltime", "queue", "account"):
            value = getattr(self, flag)
            if not self.slurm and value != getattr(Where, flag):
                raise ValueError(f"--{flag} is for --slurm")
            if flag in ("jobs", "cores") and value < 1:
                raise ValueError(f"{flag} = {value} is not allowed; allowed: whole numbers from 1")
            if flag in FORMS and not re.fullmatch(FORMS[flag][0], value, re.IGNORECASE):
                raise ValueError(f"{flag} = {value!r} is not allowed; allowed: {FORMS[flag][1]}")
        if self.shared and not self.slurm and self.scheduler is None:
            raise ValueError("--shared is for --scheduler and --slurm; processes of this machine share its files anyway")

    @contextmanager
    def executor(self) -> Iterator[Any]:
        """What the runs are handed to: a Dask client of the cluster that was asked for, or None for this machine."""
        if self.scheduler is None and not self.slurm:
            yield None
            return
        try:
            from ..ensembles.dask import connect
            from ..ensembles.slurm import Slurm, slurm
        except ImportError as error:
            raise ValueError(f"--scheduler and --slurm need Dask: pip install 'cotflow[dask]' ({error})") from None
        if self.scheduler is not None:
            with connect(self.scheduler) as client:
                yield client
            return
        with (
            slurm(self.cores, self.memory, self.walltime, self.queue, self.account) as cluster,
            connect(cluster.scheduler_address) as client,
        ):
            yield Slurm(client, cluster, self.jobs)


def sweep(
    grid: Annotated[Path, Parameter(help="A TOML file: preset, seeds, engine, Config fields, [axes] or [[points]].")],
    /,
    *,
    out: Annotated[Path, Parameter(help="Directory of the records, one directory a point in it.")],
    seeds: SeedsFlag = None,
    failed: Annotated[bool, Parameter(help="Run only what failed before.", negative=())] = False,
    dry_run: Annotated[bool, Parameter(name="--dry_run", help="Say what would run, and run nothing.", negative=())] = False,
    where: Where | None = None,
) -> None:
    """Train every point of a grid for every seed. The same command again goes on where this one ended, however it ended."""
    plan = read_grid(grid)
    if seeds is not None:
        plan = dataclasses.replace(plan, seeds=parse_seeds(seeds))
    options = check_options({"engine": "leap", "backend": "fused", **plan.options})
    check_points(plan.points, options)
    where = where or Where()
    where.check()
    total = len(plan.points) * len(plan.seeds)
    print(
        f"{len(plan.points)} point{'s' if len(plan.points) > 1 else ''}, seeds {write_seeds(plan.seeds)}: {total} runs in {out}"
    )
    if dry_run:
        rehearse(plan, look(plan.points, options, out, {}), failed)
        return
    with where.executor() as executor:
        shared = (where.shared or None) if executor is not None else None
        records = train_points(
            plan.points,
            plan.seeds,
            options,
            executor,
            out,
            workers=where.workers,
            shared=shared,
            progress=True,
            only_failed=failed,
            settled=lambda: keep_grid(grid, out),
        )
    summarise(out)
    lacking = verdict(records, total)
    if lacking:
        raise EnsembleFailed(lacking, records.failures)


def rehearse(plan: Grid, found: Mapping[str, Found], only_failed: bool) -> None:
    """Say of every point what would run; nothing is written."""
    runs = 0
    for name, cfg in plan.points.items():
        there, left = found[name], found[name].left(plan.seeds, only_failed)
        halves, done = len(there.halves & set(left)), len(there.done & set(plan.seeds))
        would = f"seeds {write_seeds(left)} would run" + (f" ({halves} from a checkpoint)" if halves else "")
        time = f"train_epochs = {cfg.train_epochs}, alpha up to {cfg.train_epochs * cfg.alpha_per_epoch:.3g}"
        print(f"{name or '.'}  {would if left else 'nothing would run'}, {done} of {len(plan.seeds)} done; {time}")
        for _, fault in there.damaged.values():
            print(f"  {fault}; it would be set aside")
        runs += len(left)
    print(f"{runs} of {len(plan.points) * len(plan.seeds)} runs would run")


def verdict(records: Records, total: int) -> str:
    """What keeps a sweep from being complete, in a sentence; nothing where it is complete."""
    sentences = [told(records.failures, total)] if records.failures else []
    if any(not isinstance(failure, Held) for failure in records.failures):
        sentences.append("run the same command with --failed to run those that failed alone")
    missing = total - len(records.done) - len(records.failures)
    if missing:
        sentences.append(f"{missing} of {total} runs have not been run; the same command without --failed runs them")
    return "; ".join(sentences)


def keep_grid(grid: Path, out: Path) -> None:
    """Keep the grid file beside the records."""
    copy = out / "grid.toml"
    if not (copy.exists() and copy.samefile(grid)):
        write_text(copy, grid.read_text())
