"""What a directory of runs holds, read from its file names and locks alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from .files import FileFault
from .trajectory import failed_files, record_files, unfinished


@dataclass(frozen=True)
class Survey:
    """Seeds of one run directory by how far they are."""

    name: str
    done: list[int]
    running: list[int]
    unfinished: list[int]
    failed: list[int]


def survey(directory: Path) -> list[Survey]:
    """One row for every directory at or below `directory` that holds runs."""
    if not directory.is_dir():
        raise FileFault(f"{directory} is not a directory")
    places = [directory, *sorted(path for path in directory.rglob("*") if path.is_dir())]
    rows = [row for place in places if (row := _survey(place, str(place.relative_to(directory)))) is not None]
    if not rows:
        raise FileFault(f"{directory} holds no runs (seed_*.npz)")
    return rows


def _survey(place: Path, name: str) -> Survey | None:
    done, halves, failed = sorted(record_files(place)), sorted(unfinished(place)), sorted(failed_files(place))
    locked = sorted(int(lock.name[6:-5]) for lock in place.glob(".seed_*.lock") if _held(lock))
    if not (done or halves or failed or locked):
        return None
    return Survey(
        name,
        done,
        [seed for seed in locked if seed not in done],
        [seed for seed in halves if seed not in locked and seed not in done],
        [seed for seed in failed if seed not in done and seed not in locked],
    )


def _held(lock: Path) -> bool:
    """Whether a process holds a lock file."""
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True
