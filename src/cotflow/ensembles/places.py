"""The directory of an ensemble: one place a point, claimed by one process at a time, with what is finished in it."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ..config import Config
from ..files import Damaged, FileFault, read_archive
from ..params import Params
from ..runs import cause_path, failed_path, same_run, set_aside
from ..status import LOCK
from ..trajectory import load, record_files, unfinished


@contextmanager
def claim(out: Path) -> Iterator[None]:
    """Hold a directory for one ensemble; refuse where another has it (`status` looks at the lock for an instant)."""
    lock = FileLock(out / LOCK, timeout=1.0)
    try:
        with writing_in(out):
            out.mkdir(parents=True, exist_ok=True)
            lock.acquire()
    except Timeout:
        raise FileFault(
            f"{out} is being worked on by another ensemble; `cotflow status {out}` shows how far it is, and once it has ended "
            "the same command completes what is missing"
        ) from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def writing_in(directory: Path) -> Iterator[None]:
    """Say of an `OSError` where it struck, and whether there is no room left."""
    try:
        yield
    except Timeout:
        raise
    except OSError as error:
        raise OSError(f"{cannot_write(error)} in {directory} ({error})") from None


def cannot_write(error: OSError) -> str:
    """What an `OSError` means to whoever wants to write."""
    return "no room left to write" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else "cannot write"


def finished(
    place: Path, cfg: Config, seeds: Iterable[int], options: Mapping[str, Any], starts: Mapping[int, Params]
) -> tuple[set[int], list[str]]:
    """Seeds of a place whose records are there, whole and of this very run; and a sentence on every file set aside as damaged."""
    wanted, done, notes = set(seeds), set(), []
    for seed, file in record_files(place).items():
        if seed in wanted:
            try:
                same_run(load(file), file, cfg, seed, {**options, "params": starts.get(seed)})
                done.add(seed)
            except Damaged as fault:
                notes.append(f"{fault}; it is now {set_aside(file).name}, and seed {seed} runs again")
    for seed, file in unfinished(place).items():
        if seed in wanted - done:
            try:
                read_archive(file, "checkpoint")
            except Damaged as fault:
                notes.append(f"{fault}; it is now {set_aside(file).name}, and seed {seed} begins anew")
    return done, notes


def failed(place: Path, seeds: Iterable[int]) -> set[int]:
    """Seeds of a place that failed when they last ran."""
    return {seed for seed in seeds if cause_path(place, seed).exists() or failed_path(place, seed).exists()}
