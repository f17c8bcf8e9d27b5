"""From initial weights to a trajectory: every optimiser step, or the same curves in about a hundred gradients."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import xarray as xr

from ..config import Config
from ..errors import RunFailed
from ..files import FORMAT
from ..gradients.backends import Backend
from ..gradients.backends import backend as make_backend
from ..observables import teacher_overlap
from ..params import Params
from ..task import Task
from ..trajectory import trajectory, with_weights
from .drive import Checkpoint, Progress, drive
from .engine import Engine
from .recorder import Recorder

ENGINES = ("leap", "flow", "steps")
__all__ = ["ENGINES", "Progress", "simulate"]


def simulate(
    cfg: Config,
    seed: int = 0,
    engine: str | Callable[..., Engine] = "leap",
    backend: str | Backend = "fused",
    *,
    params: Params | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    max_gradients: int | None = None,
    save_params: Iterable[int] = (),
    checkpoint: str | Path | None = None,
    checkpoint_every: float = 30.0,
    threads: int | None = None,
    device: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> xr.Dataset:
    """Train the student of one seed and return its trajectory, with initial and final weights in it.

    Parameters
    ----------
    engine
        "leap": the curves of exact full-batch SGD from about a hundred gradients; "flow": gradient flow; "steps": every step. Or
        one's own `Engine`, as a class or function that takes (cfg, task, params, backend) and the tolerances that are given.
    backend
        "fused", "torch", or one's own `Backend`.
    params
        Weights to start from, instead of `Params.initial(cfg, seed)`.
    rtol, atol, max_gradients
        Tolerances and budget of the adaptive engines; their defaults where None.
    save_params
        Epochs whose weights the record keeps along `snapshot`.
    checkpoint
        A file that is written every `checkpoint_every` seconds and taken up where it exists; remove it when the record is safe.
    progress
        Called with a `Progress` after every evaluation.
    """
    made = make_backend(backend, threads, device)
    task = Task(cfg, seed)
    start = Params.initial(cfg, seed) if params is None else params.check(cfg)
    tolerances = {
        key: value for key, value in {"rtol": rtol, "atol": atol, "max_gradients": max_gradients}.items() if value is not None
    }
    runner = make_engine(engine, cfg, task, start, made, **tolerances)
    recorder = Recorder(cfg, task, made, save_params)
    origin = {
        **cfg.model_dump(mode="json"),
        "seed": seed,
        "engine": engine_name(engine),
        "backend": made.name,
        "format": FORMAT,
        "start": hashlib.sha256(start.flatten().tobytes()).hexdigest()[:16],
        "snapshots": recorder.snapshot_epochs,
        **tolerances,
    }
    rest = Checkpoint(Path(checkpoint) if checkpoint else None, origin, checkpoint_every)
    rest.resume(runner, recorder)

    def result(status: str) -> xr.Dataset:
        run = trajectory(
            cfg,
            recorder.epochs,
            recorder.curves(),
            kind="simulation",
            seed=task.seed,
            engine=engine_name(engine),
            backend=made.name,
            status=status,
            gradients=runner.gradients,
            wall_seconds=rest.seconds,
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            tau=teacher_overlap(task.permutations),
            started_from="initial" if params is None else "given weights",
            **runner.report(),
        )
        return with_weights(run, start, runner.params, recorder.snapshots)

    try:
        drive(runner, recorder, rest, progress)
    except RunFailed as failure:
        failure.partial = result("failed") if recorder.epochs else None
        raise
    return result("done")


def engine_name(engine: str | Callable[..., Engine]) -> str:
    """What records call an engine: its name, or that of the class or function which makes it."""
    return engine if isinstance(engine, str) else getattr(engine, "__name__", type(engine).__name__).lower()


def make_engine(
    name: str | Callable[..., Engine], cfg: Config, task: Task, params: Params, backend: Backend, **tolerances: Any
) -> Engine:
    """The engine of that name at its start; what it cannot stand for it refuses."""
    if not isinstance(name, str):
        return name(cfg, task, params, backend, **tolerances)
    if name == "steps":
        from .steps import Steps

        if tolerances:
            raise ValueError(f"engine 'steps' takes no {', '.join(tolerances)}; it is exact")
        return Steps(cfg, task, params, backend)
    if name == "leap":
        from .leap import Leap

        return Leap(cfg, task, params, backend, **tolerances)
    if name == "flow":
        from .flow import Flow

        return Flow(cfg, task, params, backend, **tolerances)
    raise ValueError(f"engine = {name!r} does not exist; allowed: {', '.join(ENGINES)}")
