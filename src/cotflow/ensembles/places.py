"""The directory of an ensemble: one place a point, claimed by one process at a time, with what is finished in it."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ..config import Config
from ..files import Damaged, FileFault
from ..identity import asked, difference, of_record, read_identity, start_of_checkpoint
from ..params import Params
from ..runs import Busy, check_place, lock_path, refuse_other, same_run, set_aside
from ..status import LOCK
from ..trajectory import failed_files, load, record_files, unfinished


@contextmanager
def claim(out: Path) -> Iterator[None]:
    """Hold a directory for one ensemble; refuse where another has it (`status` looks at the lock for an instant)."""
    if out.exists() and not out.is_dir():
        raise FileFault(f"{out} is not a directory")
    lock = FileLock(out / LOCK, timeout=1.0)
    try:
        with writing_in(out):
            out.mkdir(parents=True, exist_ok=True)
            lock.acquire()
    except Timeout:
        raise Busy(
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


def cannot_write(error: BaseException) -> str:
    """What an `OSError` means to whoever wants to write."""
    full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return "no room left to write" if full else "cannot write"


@dataclass(frozen=True)
class Found:
    """What a place holds of the wanted run: seeds that are done, half-finished, and that failed; and files that are damaged."""

    done: set[int] = field(default_factory=set)
    halves: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    damaged: dict[Path, tuple[int, str]] = field(default_factory=dict)
    """Seed, and what is wrong with the file."""

    def left(self, seeds: Iterable[int], only_failed: bool = False) -> list[int]:
        """Which of the seeds are to be run."""
        wanted = set(seeds) & self.failed if only_failed else set(seeds)
        return sorted(wanted - self.done)

    def set_aside(self, seeds: Iterable[int]) -> list[str]:
        """Give damaged files other names, and a sentence on each; `seeds` are about to be run."""
        wanted, notes = set(seeds), []
        for file, (seed, fault) in self.damaged.items():
            aside = _set_aside_if_damaged(file, seed)
            if aside is None:
                continue
            what = "begins anew" if file.name.endswith(".checkpoint.npz") else "runs again"
            then = what if seed in wanted else f"{what} when it is asked for"
            notes.append(f"{fault}; it is now {aside.name}, and seed {seed} {then}")
        return notes


def _set_aside_if_damaged(file: Path, seed: int) -> Path | None:
    """Give a damaged file another name, unless another process has its seed in hand or has put a whole one in its place."""
    with suppress(FileFault, Timeout), FileLock(lock_path(file.parent, seed), timeout=0):
        try:
            read_identity(file)
        except Damaged:
            return set_aside(file)
    return None


def look(
    points: Mapping[str, Config], options: Mapping[str, Any], out: Path | None, starts: Mapping[int, Params]
) -> dict[str, Found]:
    """What is there of every point; nothing is written, and what belongs to another run is refused with the difference."""
    if out and out.is_dir() and "" not in points and (record_files(out) or unfinished(out)):
        raise FileFault(f"{out} holds runs of one configuration; use another directory for several")
    return {name: examine(out / name, cfg, options, starts) if out else Found() for name, cfg in points.items()}


def examine(place: Path, cfg: Config, options: Mapping[str, Any], starts: Mapping[int, Params]) -> Found:
    """Read every record and checkpoint of a place, those of seeds that nobody asked for too: all must be whole and of one run."""
    kind = with_start(options, starts)
    check_place(place, cfg, kind)
    found = Found()
    if not place.is_dir():
        return found
    for check, files, seeds in (
        (_check_record, record_files(place), found.done),
        (_check_checkpoint, unfinished(place), found.halves),
    ):
        for seed, file in files.items():
            try:
                check(file, cfg, seed, kind, starts)
                seeds.add(seed)
            except Damaged as fault:
                found.damaged[file] = (seed, str(fault))
            except FileFault:
                if file.exists():  # else its run has just come to an end
                    raise
    found.failed.update(set(failed_files(place)) - found.done)
    return found


def with_start(options: Mapping[str, Any], starts: Mapping[int, Params] | None) -> dict[str, Any]:
    """Options with the weights from which one of the seeds starts, if these are given."""
    return {**options, "params": next(iter((starts or {}).values()), None)}


def _check_record(file: Path, cfg: Config, seed: int, kind: dict[str, Any], starts: Mapping[int, Params]) -> None:
    if seed in starts or not starts:
        same_run(load(file), file, cfg, seed, {**kind, "params": starts.get(seed)})
    else:  # from which weights another seed should have started is not known
        refuse_other(file, difference(of_record(load(file)), asked(cfg, kind, True)))


def _check_checkpoint(file: Path, cfg: Config, seed: int, kind: dict[str, Any], starts: Mapping[int, Params]) -> None:
    differences = difference(read_identity(file), asked(cfg, kind, bool(starts)))
    if not differences and seed in starts and start_of_checkpoint(file) != starts[seed].check(cfg).fingerprint:
        differences["start"] = ("given weights", "other weights")
    refuse_other(file, differences)
