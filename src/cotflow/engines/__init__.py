"""From initial weights to a trajectory: every optimiser step, or the same curves in about a hundred gradients."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
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
from ..params import Params, require_vector_keys
from ..task import Task
from ..trajectory import trajectory, with_weights
from .drive import Checkpoint, Progress, drive
from .engine import Engine
from .recorder import Recorder

ENGINES = ("leap", "flow", "steps")
#: What an adaptive engine aims at unless it is told otherwise.
TOLERANCES = {"rtol": 1e-5, "atol": 1e-5}
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
        Tolerances and budget of the adaptive engines; their defaults, 1e-5 and 2,000, where None. They bound errors in the
        weights; errors of the loss between steps are of the same order, not bounded.
    save_params
        Epochs whose weights the record keeps along `snapshot`.
    checkpoint
        A file that is written every `checkpoint_every` seconds and taken up where it exists; remove it when the record is safe.
    threads, device
        Threads of backend "fused", by default those of `COTFLOW_THREADS` or as many as cores; PyTorch's device for "torch".
    progress
        Called with a `Progress` after every evaluation.
    """
    made = make_backend(backend, threads, device)
    task = Task(cfg, seed)
    start = Params.initial(cfg, task.seed) if params is None else finite(params.check(cfg))
    aims = tolerances(engine, {"rtol": rtol, "atol": atol})
    runner = make_engine(engine, cfg, task, start, made, **aims, **_positive({"max_gradients": max_gradients}))
    recorder = Recorder(cfg, task, made, save_params)
    origin = {
        **cfg.model_dump(mode="json"),
        "seed": task.seed,
        "engine": engine_name(engine),
        "backend": made.name,
        "format": FORMAT,
        "start": hashlib.sha256(start.flatten().tobytes()).hexdigest()[:16],
        "snapshots": recorder.snapshot_epochs,
        **aims,
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
        return with_weights(run, start, runner.params if status == "done" else recorder.latest, recorder.snapshots)

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


def tolerances(engine: str | Callable[..., Engine], given: Mapping[str, Any]) -> dict[str, float]:
    """The tolerances that a run has when these are given (None: not given); with seed and weights they make its identity.

    >>> tolerances("leap", {"rtol": 1e-7})
    {'rtol': 1e-07, 'atol': 1e-05}
    """
    own = TOLERANCES if engine in ("leap", "flow") else {}
    return {**own, **_positive({name: given.get(name) for name in TOLERANCES})}


def refuse(cfg: Config, engine: str | Callable[..., Engine], backend: str | Backend) -> None:
    """Say in one sentence what an engine and a backend cannot represent, before anything is begun."""
    if backend == "fused":
        require_vector_keys(cfg, "backend 'fused'")
    if engine in ("leap", "flow"):
        from .leap import refuse as refuse_leaps

        refuse_leaps(cfg, str(engine))


def finite(params: Params) -> Params:
    """Pass on weights to start from, unless there is one that is not finite."""
    for name, value in params.items():
        if not np.isfinite(value).all():
            raise ValueError(f"params.{name} holds {np.count_nonzero(~np.isfinite(value))} weights that are not finite")
    return params


def _positive(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are given, as plain positive numbers; whole ones stay whole."""
    found = {}
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
            raise ValueError(f"{name} = {value!r} is not allowed; allowed: positive numbers")
        found[name] = int(value) if isinstance(value, Integral) else float(value)
    return found
