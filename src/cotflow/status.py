"""What a directory of runs holds, read from file names, locks and what ensembles and failed runs wrote of themselves."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .files import FileFault
from .trajectory import failed_files, record_files, unfinished

#: What an ensemble keeps in its directory: what it consists of and how far it is, and the lock of the process at work.
STATE = "ensemble.json"
CONFIG = "config.toml"
#: Where a directory of results keeps solved theories.
THEORY = "theory"
LOCK = ".ensemble.lock"


@dataclass(frozen=True)
class Survey:
    """Seeds of one run directory by how far they are; `waiting` ones belong to an ensemble that has not come to them.

    `unreadable` says why nothing is known of a directory.
    """

    name: str
    done: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    unfinished: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    causes: dict[int, str] = field(default_factory=dict)
    unreadable: str = ""


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
    """One row for every directory at or below `directory` that holds runs or belongs to an ensemble, whose order is kept."""
    if not directory.is_dir():
        raise FileFault(f"{directory} is not a directory")
    places: dict[Path, list[int]] = {}
    for place in _directories(directory):
        places.setdefault(place, [])
        plan = plan_of(place) or {"points": [], "seeds": []}
        for name in plan["points"]:
            places[place / name] = plan["seeds"]
    rows = [_survey(place, str(place.relative_to(directory)), wanted) for place, wanted in places.items()]
    found = [row for row in rows if row is not None]
    if not found:
        raise FileFault(f"{directory} holds no runs (seed_*.npz)")
    return found


def ensembles_in(directory: Path) -> dict[str, Ensemble]:
    """Every ensemble that was or is at work at or below a directory, by where it is."""
    found = {str(place.relative_to(directory)): ensemble_of(place) for place in _directories(directory)}
    return {name: whole for name, whole in found.items() if whole is not None}


def ensemble_of(directory: Path) -> Ensemble | None:
    """The ensemble that was or is at work in a directory."""
    state = plan_of(directory)
    if state is None:
        return None
    at_work = held(directory / LOCK)
    return Ensemble(
        at_work,
        state["points"],
        state["seeds"],
        state["running"] if at_work else 0,
        state["seconds_left"] if at_work else None,
        state["written"],
    )


def plan_of(directory: Path) -> dict[str, Any] | None:
    """What an ensemble wrote of itself: its points and seeds, and how far it was; what is not of that form counts as nothing."""
    try:
        state = json.loads((directory / STATE).read_text())
        points, seeds, left = state["points"], state["seeds"], state["seconds_left"]
        formed = (
            all(isinstance(name, str) and not Path(name).is_absolute() for name in points)
            and all(isinstance(seed, int) for seed in seeds)
            and isinstance(state["running"], int)
            and (left is None or isinstance(left, int | float))
            and isinstance(state["written"], str)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return state if formed and isinstance(points, list) and isinstance(seeds, list) else None


def _directories(directory: Path) -> list[Path]:
    """A directory and all below it, without the theories of a reproduction, which are no runs.

    What may not be read is passed over here, and told where it is looked into.
    """
    found = [directory]
    for root, names, _ in os.walk(directory):
        if THEORY in names and not any(any(Path(root, THEORY).rglob(own)) for own in (CONFIG, STATE)):
            names.remove(THEORY)
        found += sorted(Path(root, name) for name in names)
    return sorted(found)


def _survey(place: Path, name: str, wanted: Iterable[int]) -> Survey | None:
    try:
        if not place.is_dir():
            return Survey(name, waiting=sorted(wanted)) if wanted else None
        done, halves, failed = sorted(record_files(place)), sorted(unfinished(place)), sorted(failed_files(place))
        locks = {lock: re.fullmatch(r"\.seed_(\d+)\.lock", lock.name) for lock in place.iterdir()}
    except OSError as error:
        return Survey(name, unreadable=str(error.strerror or error))
    locked = sorted(int(match[1]) for lock, match in locks.items() if match and held(lock))
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
    """Whether a process holds a lock file; of one that may not be read nothing is known, and it is taken to be free.

    It is looked at as `filelock` takes it, by flock, but not to write: it may be somebody else's, or on a read-only disk.
    """
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
