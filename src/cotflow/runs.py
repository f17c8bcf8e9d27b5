"""One seed, trained into a directory: finished before, half finished, in somebody else's hands, or new."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from filelock import FileLock, Timeout

from .config import Config
from .engines import simulate
from .engines.options import check_config, check_options
from .errors import BudgetExceeded, Busy, RunFailed
from .files import Damaged, FileFault, read_archive, write_text
from .identity import asked, difference, in_words, of_record, read_identity
from .params import Params
from .status import CONFIG, held, plan_of
from .task import check_seed
from .trajectory import checkpoint_path, load, record_files, record_path, save, unfinished


def train(
    cfg: Config, seed: int, directory: str | Path, wait: float = 1.0, say: Callable[[str], None] = warnings.warn, **options: Any
) -> tuple[xr.Dataset, bool]:
    """The record of a seed in `directory`, and whether it was there already; `options` go to `simulate`.

    A finished record of the same run is returned as it is, one of another run is refused, a checkpoint is taken up; a file that
    is damaged is set aside, which `say` is told. While a seed is being trained it is locked against other processes, which give
    up after `wait` seconds. A run that fails leaves its cause in `seed_N.failed.txt` and what it recorded in `seed_N.failed.npz`.
    """
    options, directory = checked(cfg, seed, options), Path(directory)
    settle({directory: cfg}, options)
    try:
        with FileLock(lock_path(directory, seed), timeout=wait):
            settle({directory: cfg}, options, seed)  # somebody may have come in between, who now sees this seed at work
            for litter in directory.glob(f".seed_{seed}.*.tmp"):  # of a process that was killed while it wrote
                litter.unlink(missing_ok=True)
            run = _finished(cfg, seed, directory, options, say)
            return (_run(cfg, seed, directory, options), False) if run is None else (run, True)
    except Timeout:
        raise Busy(f"seed {seed} in {directory} is being trained by another process") from None


def checked(cfg: Config, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Pass on options; what `simulate` would refuse of them is refused before a directory is made."""
    check_seed(seed)
    given = check_options(options)
    check_config(cfg, given)
    if given.get("params") is not None:
        given["params"].check(cfg)
    return {"save_params": [], **given}


def _finished(cfg: Config, seed: int, directory: Path, options: dict[str, Any], say: Callable[[str], None]) -> xr.Dataset | None:
    """The record of this very run where it is there; a damaged record or checkpoint is set aside."""
    path, rest = record_path(directory, seed), checkpoint_path(directory, seed)
    if path.exists():
        try:
            return same_run(load(path), path, cfg, seed, options)
        except Damaged as fault:
            say(f"{fault}; it is now {set_aside(path).name}, and seed {seed} runs again")
    if rest.exists():
        try:
            read_archive(rest, "checkpoint")
        except Damaged as fault:
            say(f"{fault}; it is now {set_aside(rest).name}, and seed {seed} begins anew")
    return None


def _run(cfg: Config, seed: int, directory: Path, options: dict[str, Any]) -> xr.Dataset:
    """Train a seed and keep what came of it."""
    rest = checkpoint_path(directory, seed)
    try:
        run = simulate(cfg, seed, checkpoint=rest, **options)
        keep(run, directory, seed)
    except RunFailed as failure:
        if keep_failure(directory, seed, str(failure), failure.partial, for_good=not isinstance(failure, BudgetExceeded)):
            failure.add_note(f"what was recorded is in {failed_path(directory, seed)}")
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            onward = f"goes on from {rest}" if rest.exists() else "begins anew"
            error.add_note(f"make room there, and the same command {onward}")
        raise
    return run


def settle(places: Mapping[Path, Config], options: Mapping[str, Any], mine: int | None = None) -> None:
    """Write each place's configuration; a place of another one, or with runs of other `options`, is refused with the difference.

    A place without record, checkpoint or seed at work (but for the caller's own, `mine`) takes another configuration, unless a
    person wrote the one that it has. Processes do so one after the other, so that no two settle for different ones.
    """
    for place, cfg in places.items():
        check_place(place, cfg, options, mine)
    for place, cfg in places.items():
        if written_config(place) == cfg and (mine is None or record_path(place, mine).exists()):
            continue
        place.mkdir(parents=True, exist_ok=True)
        with FileLock(place / ".config.lock"):
            check_place(place, cfg, options, mine)
            if written_config(place) != cfg:
                write_text(place / CONFIG, cfg.to_toml())


def check_place(place: Path, cfg: Config, options: Mapping[str, Any], mine: int | None = None) -> None:
    """Refuse a place of another configuration, or of other runs; its first file tells, as none of another run is let in."""
    if place.exists() and not place.is_dir():
        raise FileFault(f"{place} is not a directory")
    plan = plan_of(place)
    points = [name for name in plan["points"] if name and (place / name).is_dir()] if plan is not None else []
    if points:
        told = ", ".join(points[:2]) + (", ..." if len(points) > 2 else "")
        raise FileFault(f"{place} holds the points of a sweep ({told}); use another directory")
    files = [*record_files(place).values(), *unfinished(place).values()] if place.is_dir() else []
    written = written_config(place)
    if written is not None and written != cfg:
        others = (lock for lock in place.glob(".seed_*.lock") if mine is None or lock != lock_path(place, mine))
        used = files or any(map(held, others))
        if used or (place / CONFIG).read_text() != written.to_toml():
            told = in_words(written.difference(cfg))
            raise FileFault(f"{place} belongs to another configuration ({told}); use another directory or move it away")
    for file in files:
        try:
            found = read_identity(file)
        except FileFault as fault:
            if isinstance(fault, Damaged) or not file.exists():  # the run of a checkpoint may just have come to its end
                continue
            raise
        return refuse_other(file, difference(found, asked(cfg, options, options.get("params") is not None)))


def written_config(place: Path) -> Config | None:
    """The configuration that is written in a place; an empty file, as a full disk leaves it, is none."""
    file = place / CONFIG
    return Config.from_toml(file) if file.exists() and file.stat().st_size else None


def refuse_other(file: Path, differences: Mapping[str, tuple[Any, Any]]) -> None:
    """Refuse a file if it differs from what is wanted, and say in what."""
    if differences:
        raise FileFault(f"{file} holds another run ({in_words(differences)}); move it away or use another directory")


def set_aside(file: Path) -> Path:
    """Give a damaged file another name, which is returned."""
    number = 1
    while (aside := file.with_name(f"{file.name}.damaged-{number}")).exists():
        number += 1
    return file.rename(aside)


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
    if partial is not None:
        save(partial, failed_path(directory, seed))
    else:
        failed_path(directory, seed).unlink(missing_ok=True)
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


def same_run(run: xr.Dataset, path: Path, cfg: Config, seed: int, options: Mapping[str, Any]) -> xr.Dataset:
    """Pass on a record that this call would have made; refuse another, and say where they differ."""
    params = options.get("params")
    differences = difference(of_record(run), asked(cfg, options, params is not None))
    if run.attrs.get("seed") != seed:
        differences["seed"] = (run.attrs.get("seed"), seed)
    if not differences and params is not None and not _started_from(run, params):
        differences["start"] = ("given weights", "other weights")
    refuse_other(path, differences)
    return run


def _started_from(run: xr.Dataset, params: Params) -> bool:
    """Whether a record started from these weights."""
    first = Params.of(run, 0)
    return all(np.array_equal(dict(first.items())[name], value) for name, value in params.astype(first.m.dtype).items())
