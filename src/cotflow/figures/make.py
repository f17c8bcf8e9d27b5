"""From a directory of results to files: the figures that its ensembles suffice for, drawn side by side in several processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from ..results import Results
from .output import save, to_svg
from .registry import FIGURES


@dataclass(frozen=True)
class Drawn:
    """A figure that was made: its files, and SVG at the width of a page and of a column where these were asked for."""

    name: str
    title: str
    paper: str
    caption: str
    files: tuple[Path, ...]
    wide: str = ""
    narrow: str = ""


def available(results: Results, names: Iterable[str] | None = None) -> list[str]:
    """Figures, of `names` or of all, whose ensembles are there."""
    names = list(FIGURES if names is None else names)
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise ValueError(f"figure {', '.join(unknown)} does not exist; allowed: {', '.join(FIGURES)}")
    there = {each for name in names for each in FIGURES[name].ensembles if results.points(each)}
    lone = sum(len(results.points(each)) for each in FIGURES["transition_times"].ensembles) < 2
    return [name for name in names if name in drawable(there) and not (name == "transition_times" and lone)]


def drawable(ensembles: Iterable[str]) -> list[str]:
    """Figures for which these ensembles suffice."""
    there = set(ensembles)
    return [name for name, entry in FIGURES.items() if set(entry.ensembles) - set(entry.optional) <= there]


def theories(names: Iterable[str], without: Sequence[str] = ()) -> list[tuple[str, str]]:
    """The (ensemble, tier) of every theory that figures draw; `without` leaves tiers out."""
    pairs = (source.partition(":") for name in names for source in FIGURES[name].sources)
    return list(dict.fromkeys((ensemble, tier) for ensemble, _, tier in pairs if tier and tier not in without))


def curves(results: Results, name: str, without: Sequence[str] = ()) -> list[xr.Dataset]:
    """The trajectories that a figure draws; `without` leaves tiers of theory out."""
    absent = [each for each in FIGURES[name].optional if not results.points(each)]
    wanted = [each for each in FIGURES[name].sources if each not in absent and each.partition(":")[2] not in without]
    found = results.sources(*wanted) or []
    return _same_seeds(found) if name == "transition_times" else found


def _same_seeds(found: list[xr.Dataset]) -> list[xr.Dataset]:
    """The points of a sweep over the seeds that all of them have."""
    simulated = [data for data in found if "seed" in data.dims]
    common = set.intersection(*(set(data.seed.values.tolist()) for data in simulated)) if simulated else set()
    return [data.sel(seed=np.isin(data.seed, list(common))) if "seed" in data.dims else data for data in found]


def draw(
    results: Results,
    name: str,
    out: Path,
    formats: Sequence[str] = ("png", "pdf"),
    inline: bool = False,
    without: Sequence[str] = (),
) -> Drawn:
    """Draw one figure into files, and as SVG for a page where `inline`."""
    entry, found = FIGURES[name], curves(results, name, without)
    figure = entry.draw(*found)
    files = tuple(save(figure, out / name, formats))
    wide = to_svg(figure) if inline else ""
    narrow = to_svg(entry.draw(*found, width="column")) if inline else ""
    return Drawn(name, entry.title, entry.paper, entry.caption(*found), files, wide, narrow)


def draw_all(
    results: Results,
    names: Sequence[str],
    out: Path,
    formats: Sequence[str] = ("png", "pdf"),
    inline: bool = False,
    without: Sequence[str] = (),
    executor: Executor | None = None,
) -> list[Drawn]:
    """Draw figures in their order, in the executor's processes where one is given."""
    if executor is None:
        return [draw(results, name, out, formats, inline, without) for name in names]
    home = (results.root, results.solutions)
    return [each.result() for each in [executor.submit(_draw_there, home, name, out, formats, inline, without) for name in names]]


_there: dict[tuple[Path, Path], Results] = {}


def _draw_there(home: tuple[Path, Path], name: str, *how: object) -> Drawn:
    """In a worker process: open the results once, and draw."""
    results = _there.setdefault(home, Results(*home))
    return draw(results, name, *how)  # type: ignore[arg-type]
