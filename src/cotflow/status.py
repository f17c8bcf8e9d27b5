"""What a directory of runs holds, read from its file names and locks alone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from .files import FileFault
from .trajectory import failed_files, record_files, unfinished

#: What an ensemble keeps in its directory: what it consists of and how far it is, and the lock of the process at work.
STATE = "ensemble.json"
LOCK = ".ensemble.lock"


@dataclass(frozen=True)
class Survey:
    """Seeds of one run directory by how far they are; `waiting` ones belong to an ensemble that has not come to them."""

    name: str
    done: list[int]
    running: list[int]
    unfinished: list[int]
    failed: list[int]
    waiting: list[int] = field(default_factory=list)
    causes: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ensemble:
    """An ensemble in a directory: what it consists of, whether a process is at work on it, and the time left as that one said."""

    at_work: bool
    points: list[str]
    seeds: list[int]
    running: int
    seconds_left: float | None
    written: str


def survey(directory: Path) -> list[Survey]:
    """One row for every directory at or below `directory` that holds runs, or belongs to its ensemble."""
    if not directory.is_dir():
        raise FileFault(f"{directory} is not a directory")
    whole = ensemble_of(directory)
    planned = {directory / name for name in whole.points} if whole else set()
    below = {path for path in directory.rglob("*") if path.is_dir()}
    places = [directory, *sorted(below | planned - {directory})]
    rows = []
    for place in places:
        wanted = whole.seeds if whole and place in planned else []
        row = _survey(place, str(place.relative_to(directory)), wanted)
        if row is not None:
            rows.append(row)
    if not rows:
        raise FileFault(f"{directory} holds no runs (seed_*.npz)")
    return rows


def ensemble_of(directory: Path) -> Ensemble | None:
    """The ensemble that was or is at work in a directory."""
    state = _read_state(directory / STATE)
    if state is None:
        return None
    at_work = (directory / LOCK).exists() and held(directory / LOCK)
    return Ensemble(
        at_work,
        state["points"],
        state["seeds"],
        state["running"] if at_work else 0,
        state["seconds_left"] if at_work else None,
        state["written"],
    )


def _read_state(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _survey(place: Path, name: str, wanted: Iterable[int]) -> Survey | None:
    if not place.is_dir():
        return Survey(name, [], [], [], [], sorted(wanted)) if wanted else None
    done, halves, failed = sorted(record_files(place)), sorted(unfinished(place)), sorted(failed_files(place))
    locked = sorted(int(lock.name[6:-5]) for lock in place.glob(".seed_*.lock") if held(lock))
    if not (done or halves or failed or locked or wanted):
        return None
    running = [seed for seed in locked if seed not in done]
    halves = [seed for seed in halves if seed not in locked and seed not in done]
    failed = [seed for seed in failed if seed not in done and seed not in locked]
    waiting = sorted(set(wanted) - {*done, *running, *halves, *failed})
    return Survey(name, done, running, halves, failed, waiting, {seed: _cause(place, seed) for seed in failed})


def _cause(place: Path, seed: int) -> str:
    try:
        return (place / f"seed_{seed}.failed.txt").read_text().strip()
    except OSError:
        return "no cause was written"


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def held(lock: Path) -> bool:
    """Whether a process holds a lock file."""
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True
