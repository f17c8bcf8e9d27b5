"""One seed, trained into a directory: finished before, half finished, in somebody else's hands, or new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from filelock import FileLock, Timeout

from .config import Config
from .engines import engine_name, simulate, tolerances
from .errors import BudgetExceeded, RunFailed
from .files import FileFault, write_text
from .params import Params
from .trajectory import checkpoint_path, config_of, load, record_path, save


class Busy(FileFault):
    """A seed that another process is training."""


def train(cfg: Config, seed: int, directory: str | Path, wait: float = 1.0, **options: Any) -> tuple[xr.Dataset, bool]:
    """The record of a seed in `directory`, and whether it was there already; `options` go to `simulate`.

    A finished record of the same run is returned as it is, one of another run is refused, a checkpoint is taken up. While a seed
    is being trained it is locked against other processes, which give up after `wait` seconds. A run that fails leaves its cause
    in `seed_N.failed.txt` and what it recorded in `seed_N.failed.npz`.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    path = record_path(directory, seed)
    try:
        with FileLock(lock_path(directory, seed), timeout=wait):
            if path.exists():
                return same_run(load(path), path, cfg, seed, options), True
            try:
                run = simulate(cfg, seed, checkpoint=checkpoint_path(directory, seed), **options)
            except RunFailed as failure:
                if keep_failure(directory, seed, str(failure), failure.partial, for_good=not isinstance(failure, BudgetExceeded)):
                    failure.add_note(f"what was recorded is in {failed_path(directory, seed)}")
                raise
            keep(run, directory, seed)
            return run, False
    except Timeout:
        raise Busy(f"seed {seed} in {directory} is being trained by another process") from None


def keep(run: xr.Dataset, directory: Path, seed: int) -> None:
    """Save a finished run; its checkpoint and the marks of an earlier failure go."""
    save(run, record_path(directory, seed))
    for path in (checkpoint_path(directory, seed), failed_path(directory, seed), cause_path(directory, seed)):
        path.unlink(missing_ok=True)


def keep_failure(directory: Path, seed: int, cause: str, partial: xr.Dataset | None = None, for_good: bool = True) -> bool:
    """Save why a run failed and what it recorded (whether it recorded anything is returned).

    Its checkpoint goes, unless the same run may get further with a larger budget.
    """
    write_text(cause_path(directory, seed), cause + "\n")
    failed_path(directory, seed).unlink(missing_ok=True)
    if partial is not None:
        save(partial, failed_path(directory, seed))
    if for_good:
        checkpoint_path(directory, seed).unlink(missing_ok=True)
    return partial is not None


def lock_path(directory: Path, seed: int) -> Path:
    """The lock that whoever trains a seed holds."""
    return directory / f".seed_{seed}.lock"


def failed_path(directory: Path, seed: int) -> Path:
    """What a failed run recorded."""
    return directory / f"seed_{seed}.failed.npz"


def cause_path(directory: Path, seed: int) -> Path:
    """Why a run failed, in a sentence."""
    return directory / f"seed_{seed}.failed.txt"


def same_run(run: xr.Dataset, path: Path, cfg: Config, seed: int, options: dict[str, Any]) -> xr.Dataset:
    """Pass on a record that this call would have made; refuse another, and say where they differ."""
    engine, backend = engine_name(options.get("engine", "leap")), options.get("backend", "fused")
    wanted = {"seed": seed, "engine": engine, "backend": getattr(backend, "name", backend)}
    wanted |= tolerances(options.get("engine", "leap"), options)
    differences = dict(config_of(run).difference(cfg))
    differences |= {key: (run.attrs.get(key), value) for key, value in wanted.items() if run.attrs.get(key) != value}
    if not differences and not _same_start(run, options.get("params")):
        differences["start"] = (run.attrs.get("started_from"), "initial" if options.get("params") is None else "other weights")
    there, asked = (set(map(int, epochs)) for epochs in (run.coords.get("snapshot", ()), options.get("save_params", ())))
    if not asked <= there:
        differences["save_params"] = (sorted(there), sorted(asked))
    if differences:
        told = ", ".join(f"{key} = {old!r}, now {new!r}" for key, (old, new) in differences.items())
        raise FileFault(f"{path} holds another run ({told}); move it away or use another directory")
    return run


def _same_start(run: xr.Dataset, params: Params | None) -> bool:
    """Whether a record started from these weights (None: from the seed's own)."""
    if params is None:
        return run.attrs.get("started_from", "initial") == "initial"
    first = Params.of(run, 0)
    return all(np.array_equal(dict(first.items())[name], value) for name, value in params.astype(first.m.dtype).items())
