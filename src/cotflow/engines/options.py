"""Options of a run, checked before anything is begun: what `simulate` would refuse is refused before a directory is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from ..config import Config, require_config
from ..gradients import BACKENDS, Backend
from ..gradients import backend as make_backend
from ..gradients.threads import resolve
from ..params import require_vector_keys
from .drive import Checkpoint
from .engine import Engine

ENGINES = ("leap", "flow", "steps")
#: What an adaptive engine aims at unless it is told otherwise.
TOLERANCES = {"rtol": 1e-5, "atol": 1e-5}
#: Options of `simulate` that say how, not what or where.
NAMES = {"engine", "backend", "rtol", "atol", "max_gradients", "save_params", "checkpoint_every", "threads", "device"}


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options for `simulate` that mean something together, without those that are None; epochs to save in order."""
    given = {key: value for key, value in options.items() if value is not None}
    engine: Any = given.get("engine", ENGINES[0])
    backend: Any = given.get("backend", BACKENDS[0])
    if not callable(engine) and engine not in ENGINES:
        raise ValueError(f"engine = {engine!r} does not exist; allowed: {', '.join(ENGINES)}, or a class of one's own")
    if backend not in BACKENDS and not hasattr(backend, "loss_and_gradient"):
        raise ValueError(f"backend = {backend!r} does not exist; allowed: {', '.join(BACKENDS)}, or an object of one's own")
    aims = [name for name in ("rtol", "atol", "max_gradients") if name in given]
    if engine == "steps" and aims:
        raise ValueError(f"engine 'steps' takes no {', '.join(aims)}; it is exact")
    tolerances(given.get("engine", ENGINES[0]), given)
    budget = given.get("max_gradients", 1)
    if isinstance(budget, bool) or not isinstance(budget, Integral) or budget < 1:  # type: ignore[operator]
        raise ValueError(f"max_gradients = {budget!r} is not allowed; allowed: whole numbers from 1")
    resolve(given.get("threads"))
    make_backend(backend, given.get("threads"), given.get("device"))
    Checkpoint(None, {}, given.get("checkpoint_every", 0.0))
    return {**given, "save_params": _epochs(given.get("save_params", ()))}


def check_config(cfg: Config, options: Mapping[str, Any]) -> None:
    """Refuse what engine and backend cannot represent of a configuration, and epochs that it does not have."""
    require_config(cfg)
    refuse(cfg, options.get("engine", ENGINES[0]), options.get("backend", BACKENDS[0]))
    outside = [epoch for epoch in options.get("save_params", ()) if epoch > cfg.train_epochs]
    if outside:
        raise ValueError(f"save_params = {outside} lies outside the run; allowed: epochs 0 to {cfg.train_epochs}")


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


def _epochs(value: Any) -> list[int]:
    """Epochs in order, once each."""
    found = list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes) else [None]
    if not all(isinstance(epoch, Integral) and not isinstance(epoch, bool) and int(epoch) >= 0 for epoch in found):
        raise ValueError(f"save_params = {value!r} is not allowed; allowed: a list of epochs, as [0, 100]")
    return sorted({int(epoch) for epoch in found})  # type: ignore[arg-type]


def _positive(given: Mapping[str, Any]) -> dict[str, float]:
    """Those that are given, as plain positive numbers."""
    found = {}
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
            raise ValueError(f"{name} = {value!r} is not allowed; allowed: positive numbers")
        found[name] = float(value)
    return found
