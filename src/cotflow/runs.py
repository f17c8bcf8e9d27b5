"""One seed, trained into a directory: finished before, half finished, in somebody else's hands, or new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xarray as xr
from filelock import FileLock, Timeout

from .config import Config
from .engines import simulate
from .errors import RunFailed
from .files import FileFault
from .trajectory import checkpoint_path, config_of, load, record_path, save


def train(cfg: Config, seed: int, directory: str | Path, **options: Any) -> tuple[xr.Dataset, bool]:
    """The record of a seed in `directory`, and whether it was there already; `options` go to `simulate`.

    A finished record of the same run is returned as it is, one of another run is refused, a checkpoint is taken up. While a seed
    is being trained it is locked against other processes. A run that fails leaves what it recorded in `seed_N.failed.npz`.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    path, checkpoint = record_path(directory, seed), checkpoint_path(directory, seed)
    try:
        with FileLock(directory / f".seed_{seed}.lock", timeout=0):
            if path.exists():
                return same_run(load(path), path, cfg, seed, options), True
            run = simulate(cfg, seed, checkpoint=checkpoint, **options)
            save(run, path)
            checkpoint.unlink(missing_ok=True)
            return run, False
    except Timeout:
        raise FileFault(f"seed {seed} in {directory} is being trained by another process") from None
    except RunFailed as failure:
        if failure.partial is not None:
            failed = save(failure.partial, directory / f"seed_{seed}.failed.npz")
            checkpoint.unlink(missing_ok=True)
            failure.add_note(f"what was recorded is in {failed}")
        raise


def same_run(run: xr.Dataset, path: Path, cfg: Config, seed: int, options: dict[str, Any]) -> xr.Dataset:
    """Pass on a record that this call would have made; refuse another, and say where they differ."""
    wanted = {"seed": seed, "engine": options.get("engine", "leap"), "backend": options.get("backend", "fused")}
    wanted |= {key: options[key] for key in ("rtol", "atol") if options.get(key) is not None}
    differences = dict(config_of(run).difference(cfg))
    differences |= {key: (run.attrs.get(key), value) for key, value in wanted.items() if run.attrs.get(key) != value}
    if differences:
        told = ", ".join(f"{key} = {old!r}, now {new!r}" for key, (old, new) in differences.items())
        raise FileFault(f"{path} holds another run ({told}); move it away or use another directory")
    return run
