"""`cotflow sweep`: a grid of configurations, many seeds each, on this machine or on a cluster."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import xarray as xr
from cyclopts import Parameter

from ..ensembles import told
from ..ensembles.grid import read_grid
from ..ensembles.options import check_options, check_points
from ..ensembles.train import train_points
from ..errors import EnsembleFailed
from ..files import write_text
from ..seeds import parse_seeds, write_seeds
from ..tables import export, sweep_table
from .options import SeedsFlag

#: Columns of the printed table: those of `sweep_table`, with the heads they have there.
COLUMNS = {
    "A": "A",
    "R": "R",
    "loss": "loss",
    "next_token_accuracy": "next token",
    "rollout_accuracy": "rollout",
    "rollout_alpha": "alpha of rollout 1/2",
    "rollout_crossed": "seeds that cross",
}


@Parameter(name="*", group="Cluster")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Where:
    """Where the runs run; by default in processes of this machine."""

    workers: Annotated[int | None, Parameter(help="Processes on this machine; by default as many as cores.")] = None
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
        """Refuse flags that do not go together, before anything is begun."""
        if self.scheduler is not None and self.slurm:
            raise ValueError("--scheduler and --slurm exclude each other")
        for flag in ("jobs", "cores", "memory", "walltime", "queue", "account"):
            value = getattr(self, flag)
            if not self.slurm and value != getattr(Where, flag):
                raise ValueError(f"--{flag} is for --slurm")
            if flag in ("jobs", "cores") and value < 1:
                raise ValueError(f"{flag} = {value} is not allowed; allowed: whole numbers from 1")
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
    print(f"{len(plan.points)} points, seeds {write_seeds(plan.seeds)}: {len(plan.points) * len(plan.seeds)} runs in {out}")
    if dry_run:
        for name, cfg in plan.points.items():
            print(f"{name or '.'}  train_epochs = {cfg.train_epochs}, alpha up to {cfg.train_epochs * cfg.alpha_per_epoch:.3g}")
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
    if records.failures:
        message = (
            f"{told(records.failures, len(plan.points) * len(plan.seeds))}; run the same command with --failed to run these alone"
        )
        raise EnsembleFailed(message, records.failures)


def keep_grid(grid: Path, out: Path) -> None:
    """Keep the grid file beside the records."""
    copy = out / "grid.toml"
    if not (copy.exists() and copy.samefile(grid)):
        write_text(copy, grid.read_text())


def summarise(out: Path) -> None:
    """Write the table of all points as CSV and NetCDF, and print it."""
    table = sweep_table(out)
    for name in ("summary.csv", "summary.nc"):
        export(table, out / name)
    print_table(table)
    print(f"{out / 'summary.csv'} and {out / 'summary.nc'} hold all columns")


def print_table(table: xr.Dataset) -> None:
    """The most telling columns, a row a point."""
    from rich.console import Console
    from rich.table import Column, Table

    shown = Table(Column("point", overflow="fold"), "seeds", "failed", *COLUMNS.values())
    for name in table.point.values:
        row = table.sel(point=name)
        numbers = [f"{float(row[c]):.4g}" if c in row else "" for c in COLUMNS]
        shown.add_row(str(name), f"{int(row.seeds)}", f"{int(row.failed)}", *numbers)
    width = None if Console().is_terminal else max(120, shutil.get_terminal_size().columns)
    Console(width=width).print(shown)
