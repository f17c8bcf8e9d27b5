"""From initial weights to a trajectory: every optimiser step, or the same curves in about a hundred gradients."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
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
from .options import ENGINES, check_config, check_options, refuse, tolerances
from .recorder import Recorder

__all__ = ["ENGINES", "Progress", "refuse", "simulate", "tolerances"]


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
        Tolerances and budget of the adaptive engines; their defaults, 1e-5 and 2,000, where None. They bound the error that one
        step makes in each block of weights (root mean square); errors of the loss between steps are of the same order.
    save_params
        Epochs whose weights the record keeps along `snapshot`.
    checkpoint
        A file that is written every `checkpoint_every` seconds and taken up where it exists; remove it when the record is safe.
    threads, device
        Threads of backend "fused", by default those of `COTFLOW_THREADS` or as many as cores; PyTorch's device for "torch".
    progress
        Called with a `Progress` after every evaluation.
    """
    given = {"engine": engine, "backend": backend, "rtol": rtol, "atol": atol, "max_gradients": max_gradients}
    given |= {"save_params": save_params, "checkpoint_every": checkpoint_every, "threads": threads, "device": device}
    options = check_options(given)
    check_config(cfg, options)
    made = make_backend(backend, threads, device)
    task = Task(cfg, seed)
    start = Params.initial(cfg, task.seed) if params is None else weights(cfg, params)
    started_from = "initial" if params is None else "given weights"
    aims = tolerances(engine, options)
    budget = {"max_gradients": int(max_gradients)} if max_gradients is not None else {}
    runner = make_engine(engine, cfg, task, start, made, **aims, **budget)
    recorder = Recorder(cfg, task, made, options["save_params"])
    origin = {
        **cfg.model_dump(mode="json"),
        "seed": task.seed,
        "engine": engine_name(engine),
        "backend": made.name,
        "format": FORMAT,
        "started_from": started_from,
        "start": start.fingerprint,
        "snapshots": recorder.snapshot_epochs,
        **aims,
    }
    rest = Checkpoint(Path(checkpoint) if checkpoint else None, origin, checkpoint_every)
    rest.resume(runner, recorder)

    def result(status: str) -> xr.Dataset:
        known = {
            "kind": "simulation",
            "seed": task.seed,
            "engine": engine_name(engine),
            "backend": made.name,
            "status": status,
            "gradients": runner.gradients,
            "wall_seconds": rest.seconds,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "tau": teacher_overlap(task.permutations),
            "started_from": started_from,
        }
        run = trajectory(cfg, recorder.epochs, recorder.curves(), **{**runner.report(), **known})
        return with_weights(run, start, runner.params if status == "done" else recorder.latest, recorder.snapshots)

    try:
        drive(runner, recorder, rest, progress)
    except RunFailed as failure:
        failure.partial = result("failed") if recorder.epochs else None
        raise
    return result("done")


def engine_name(engine: str | Callable[..., Engine]) -> str:
    """What records call an engine: its name, or that of the class or function which makes it, with what a partial gives it."""
    if isinstance(engine, functools.partial):
        given = [*map(_told, engine.args), *(f"{key}={_told(value)}" for key, value in sorted(engine.keywords.items()))]
        return f"{engine_name(engine.func)}({', '.join(given)})"
    return engine if isinstance(engine, str) else getattr(engine, "__name__", type(engine).__name__).lower()


def _told(value: Any) -> str:
    """A number or text as it is; of anything else the type, as what Python shows of it may differ from process to process."""
    return repr(value) if isinstance(value, Number | str | None) else type(value).__name__


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


def weights(cfg: Config, params: Any) -> Params:
    """Pass on weights to start from in a config's precision, unless there is one that is not finite."""
    if not isinstance(params, Params):
        raise ValueError(f"params is of type {type(params).__name__}; allowed: Params, which cf.Params.of(run) makes of a record")
    params = params.check(cfg)
    for name, value in params.items():
        if not np.isfinite(value).all():
            raise ValueError(f"params.{name} holds {np.count_nonzero(~np.isfinite(value))} weights that are not finite")
    return params
