"""`cotflow train`: the paper's script."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import xarray as xr
from cyclopts import Parameter

from ..config import Config
from ..engines import Progress
from ..ensembles import told
from ..ensembles.options import check_options
from ..ensembles.train import train_points
from ..errors import EnsembleFailed
from ..params import Params
from ..runs import train as train_seed
from ..seeds import parse_seeds
from ..task import Task
from ..trajectory import load, record_path
from .options import ConfigFlag, Fields, PresetFlag, SeedsFlag, Whole, build_config


@Parameter(name="*", name_transform=lambda name: name)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Running:
    """How to run, as far as `simulate` takes it from the command line."""

    engine: Annotated[str, Parameter(help="leap, flow or steps.")] = "leap"
    backend: Annotated[str, Parameter(help="fused or torch.")] = "fused"
    threads: Annotated[Whole, Parameter(help="Threads of the fused kernel.")] = None
    device: Annotated[str | None, Parameter(help="PyTorch device, such as cuda.")] = None
    rtol: Annotated[float | None, Parameter(help="Relative tolerance of an adaptive engine.")] = None
    atol: Annotated[float | None, Parameter(help="Absolute tolerance of an adaptive engine.")] = None
    max_gradients: Annotated[Whole, Parameter(help="Gradients an adaptive engine may spend.")] = None
    checkpoint_every: Annotated[float, Parameter(help="Seconds between checkpoints.")] = 30.0

    def options(self) -> dict[str, Any]:
        """Keyword arguments for `simulate`."""
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}


def train(
    *,
    seed: Annotated[Whole, Parameter(help="One seed; 0 by default.")] = None,
    seeds: SeedsFlag = None,
    dir: Annotated[Path, Parameter(help="Directory of the records, one seed_N.npz a seed.")] = Path("results/train"),
    preset: PresetFlag = None,
    config: ConfigFlag = None,
    start: Annotated[
        str | None, Parameter(help="Weights to start from: a record, teacher, teacher-attention or teacher-logic.")
    ] = None,
    save_params: Annotated[
        str | None, Parameter(name="--save_params", help="Epochs whose weights to keep, as 0,500,1000.")
    ] = None,
    workers: Annotated[Whole, Parameter(help="Processes for several seeds; by default as many as cores.")] = None,
    running: Running | None = None,
    fields: Fields | None = None,
) -> None:
    """Train the student of one or more seeds; a seed that is there already is left alone, a half-finished one goes on."""
    cfg = build_config(preset, config, fields)
    if seed is not None and seeds is not None:
        raise ValueError("--seed and --seeds exclude each other")
    chosen = parse_seeds(seeds) if seeds is not None else [0 if seed is None else seed]
    options = (running or Running()).options()
    if save_params is not None:
        options["save_params"] = saved_epochs(save_params)
    starts = {each: starting_point(start, cfg, each) for each in chosen} if start is not None else {}
    if workers is not None and workers < 1:
        raise ValueError(f"workers = {workers} is not allowed; allowed: whole numbers from 1")
    if len(chosen) > 1:
        train_several(cfg, chosen, dir, workers, options, starts)
        return
    [one] = chosen
    with progress_bar(one, cfg) as progress:
        run, there = train_seed(cfg, one, dir, progress=progress, params=starts.get(one), **options)
    print(summary(run, record_path(dir, one), there))


def train_several(
    cfg: Config, seeds: list[int], directory: Path, workers: int | None, options: dict[str, Any], starts: dict[int, Params]
) -> None:
    """Seeds side by side, a process each, one thread each; a line on every record, and what failed."""
    options = check_options({"engine": "leap", "backend": "fused", **options})
    records = train_points({"": cfg}, seeds, options, out=directory, workers=workers, progress=True, starts=starts)
    for seed in seeds:
        if ("", seed) in records.done:
            path = record_path(directory, seed)
            print(summary(load(path, weights=False), path, ("", seed) in records.there))
    if records.failures:
        raise EnsembleFailed(told(records.failures, len(seeds)))


def saved_epochs(text: str) -> list[int]:
    """Epochs from "0,500,1000"."""
    try:
        return [int(epoch) for epoch in text.split(",")]
    except ValueError:
        raise ValueError(f"save_params = {text!r} is not allowed; allowed: epochs, as 0,500,1000") from None


def starting_point(start: str, cfg: Config, seed: int) -> Params:
    """Weights named on the command line: of a record, or the teacher's attention, matrices or both."""
    if start == "teacher":
        return Params.teacher(cfg, Task(cfg, seed))
    if start == "teacher-attention":
        teacher = Params.teacher(cfg, Task(cfg, seed))
        return dataclasses.replace(Params.initial(cfg, seed), w_q=teacher.w_q, w_k=teacher.w_k)
    if start == "teacher-logic":
        return dataclasses.replace(Params.initial(cfg, seed), m=Task(cfg, seed).teacher.astype(cfg.dtype))
    if not Path(start).exists():
        raise ValueError(f"start = {start!r} does not exist; allowed: a record, teacher, teacher-attention, teacher-logic")
    return Params.of(load(start))


def summary(run: xr.Dataset, path: Path, there: bool) -> str:
    """One line on a finished record."""
    last = run.isel(epoch=-1)
    test = last.sel(split="test")
    numbers = (
        f"A {float(last.A):.3f}  R {float(last.R):.3f}  S {float(last.S):.4f}  test loss {float(test.loss):.3g}  "
        f"next-token {float(test.next_token_accuracy):.3f}  rollout {float(test.rollout_accuracy):.3f}"
    )
    cost = "was there already" if there else f"{run.attrs['gradients']} gradients, {run.attrs['wall_seconds']:.1f} s"
    return f"{path}  ({cost})\n  {numbers}"


@contextmanager
def progress_bar(seed: int, cfg: Config) -> Iterator[Callable[[Progress], None] | None]:
    """A live bar with loss, A, rollout accuracy and time left on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("seed {task.fields[seed]}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:3.0f}%"),
        TextColumn("{task.fields[numbers]}"),
        TimeRemainingColumn(compact=True),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task("train", total=cfg.train_epochs, seed=seed, numbers="")
        yield _show(bar, line)


def _show(bar: Any, line: Any) -> Callable[[Progress], None]:
    def update(p: Progress) -> None:
        numbers = f"loss {p.loss:.3f}  A {p.A:.3f}  rollout {p.rollout_accuracy:.3f}"
        bar.update(line, completed=p.epoch, numbers=numbers)

    return update
