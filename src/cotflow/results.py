"""What a directory of results holds: ensembles by name, and the theories solved for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import xarray as xr

from . import __version__
from .config import Config
from .files import FileFault
from .params import Params
from .status import THEORY
from .theory import closure, column, early, onset, quenched
from .trajectory import config_of, load, record_files, record_path, save

#: Every theory that figures and report know, with the options of its own; those of `SEEDED` start from a seed's weights.
TIERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "closure": (closure, {}),
    "closure-squared": (closure, {"power": 2}),
    "quenched": (quenched, {}),
    "column": (column, {}),
    "quenched-population": (quenched, {"data": "population"}),
    "column-population": (column, {"data": "population"}),
    "early": (early, {}),
    "onset": (onset, {}),
}
SEEDED = ("quenched", "column", "quenched-population", "column-population")
#: The run of one seed that keeps its weights at some moments.
SNAPSHOTS = "snapshots"
#: What the ensembles of a reproduction are called.
ENSEMBLES = ("main", "robustness", "sizes", "sweep", "exact", SNAPSHOTS)


class Results:
    """Ensembles under `root`, each in the directory of its name, loaded once and without weights.

    An ensemble is a directory of records, or of several such directories (the points of a sweep). A `root` that holds records
    itself is the ensemble "main", one that holds points alone the ensemble "sweep". Theories lie in `solutions`, by default
    `root/theory`.
    """

    def __init__(self, root: str | Path, solutions: str | Path | None = None) -> None:
        self.root = Path(root)
        if not self.root.is_dir():
            raise FileFault(f"{self.root} is not a directory")
        self._itself = ""
        if record_files(self.root):
            self._itself = "main"
        elif not any(map(self.points, ENSEMBLES)):
            self._itself = "sweep"
        self.solutions = Path(solutions) if solutions else self.root / THEORY
        self.runs = cache(self._runs)
        self.theory = cache(self._theory)

    def points(self, name: str) -> dict[str, Path]:
        """The directories of records that an ensemble consists of, by name; empty where there is none."""
        place = self.place(name)
        if not place.is_dir():
            return {}
        if record_files(place):
            return {name: place}
        return {f"{name}/{each.name}": each for each in sorted(place.iterdir()) if each.is_dir() and record_files(each)}

    def place(self, point: str) -> Path:
        """Where an ensemble lies, or one of its points ("sweep/L=5")."""
        name, _, each = point.partition("/")
        return (self.root if name == self._itself else self.root / name) / each

    def seeds(self, point: str) -> list[int]:
        """The finished seeds of one directory of records, in order."""
        return list(record_files(self.place(point)))

    def first(self, point: str) -> xr.Dataset:
        """The first record of one directory, without weights: all are of one configuration and one kind of start."""
        return load(next(iter(record_files(self.place(point)).values())), weights=False)

    def jobs(self, point: str, tier: str, seeds: Iterable[int]) -> list[TheoryJob]:
        """Theories of a tier that are not there for these seeds, for this configuration and start and by this version."""
        run, place = self.first(point), self.place(point)
        starts = place if run.attrs.get("started_from") == "given weights" else None
        wanted: list[int | None] = [seed for seed in seeds if seed in self.seeds(point)] if tier in SEEDED else [None]
        jobs = [TheoryJob(config_of(run), tier, seed, self.solution(point, tier, seed), starts) for seed in wanted]
        return [job for job in jobs if not job.done()]

    def sources(self, *wanted: str) -> list[xr.Dataset] | None:
        """Trajectories for names such as "main" (an ensemble) and "main:closure" (its theory); None if an ensemble is missing.

        Theories that are not there (a tier may refuse a configuration) are left out.
        """
        found: list[xr.Dataset] = []
        for each in wanted:
            name, _, tier = each.partition(":")
            if tier:
                found.extend(self.theory(name, tier))
            elif not self.runs(name):
                return None
            else:
                found.extend(self.runs(name))
        return found

    def _runs(self, name: str) -> list[xr.Dataset]:
        if name == SNAPSHOTS:  # one seed, as two may keep other moments
            return [load(place, [min(record_files(place))]) for place in self.points(name).values()]
        return [load(place, record_files(place), weights=False) for place in self.points(name).values()]

    def _theory(self, name: str, tier: str) -> list[xr.Dataset]:
        found = []
        for point in self.points(name):
            seeds = [seed for seed in self.seeds(point) if self.solution(point, tier, seed).exists()] if tier in SEEDED else []
            if tier not in SEEDED and self.solution(point, tier).exists():
                found.append(load(self.solution(point, tier)))
            elif seeds:
                found.append(load(self.solution(point, tier, seeds[0]).parent, seeds, weights=False))
        return found

    def solution(self, point: str, tier: str, seed: int | None = None) -> Path:
        """Where a theory of a point lies."""
        return solution_path(self.solutions, point, tier, seed)


def solution_path(solutions: Path, point: str, tier: str, seed: int | None = None) -> Path:
    """Where a theory of a point lies in a directory of theories."""
    place = solutions / point
    return place / f"{tier}.npz" if seed is None else record_path(place / tier, seed)


@dataclass(frozen=True)
class TheoryJob:
    """A theory to be solved into a file: tier and seed (None where it knows none).

    It starts from the seed's own weights, or from the first ones in the seed's record in the directory `starts`.
    """

    cfg: Config
    tier: str
    seed: int | None
    path: Path
    starts: Path | None = None

    def done(self) -> bool:
        """Whether the file is there, of this configuration and start and by this version."""
        if not self.path.exists() or self._without_start:
            return False
        try:
            attrs = load(self.path, weights=False).attrs
        except FileFault:
            return False
        given = self._given()
        start = "initial" if given is None else given.fingerprint
        known = attrs.get("config_hash"), attrs.get("version"), attrs.get("start", "initial")
        return known == (self.cfg.hash, __version__, start)

    def solve(self) -> str | None:
        """Solve it; the reason, if the tier refuses the configuration or the start."""
        try:
            solution = self._solution()
        except ValueError as refusal:
            self.path.unlink(missing_ok=True)  # of other runs that were here before
            return str(refusal)
        weights = [name for name in solution if str(name).startswith(("initial_", "final_"))]
        save(solution.drop_vars(weights), self.path)
        return None

    def _solution(self) -> xr.Dataset:
        solver, options = TIERS[self.tier]
        if self._without_start:
            raise ValueError(f"{self.tier} starts from random weights, these runs from given ones")
        if self.seed is None:
            return solver(self.cfg, **options)
        given = self._given()
        solution = solver(self.cfg, self.seed, params=given, **options)
        return solution if given is None else solution.assign_attrs(start=given.fingerprint)

    @property
    def _without_start(self) -> bool:
        """Whether weights are given to a tier that knows none."""
        return self.starts is not None and self.seed is None

    def _given(self) -> Params | None:
        if self.starts is None or self.seed is None:
            return None
        return Params.of(load(record_path(self.starts, self.seed)), epoch=0)
