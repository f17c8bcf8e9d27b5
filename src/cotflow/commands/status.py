"""`cotflow status`: what a directory of runs holds, at any time and from any terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from ..status import Ensemble, Survey


def status(directory: Annotated[Path, Parameter(help="A directory of records, or of directories of them.")], /) -> None:
    """Finished, running, half-finished, waiting and failed seeds of every run directory."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ..errors import Failure
    from ..failures import by_cause
    from ..seeds import write_seeds
    from ..status import ensembles_in, survey

    rows = survey(directory)
    table = Table(title=Text(str(directory)))
    for column in ("run", "done", "running", "unfinished", "waiting", "failed"):
        table.add_column(column, overflow="fold")
    for row in rows:
        seeds = map(write_seeds, (row.done, row.running, row.unfinished, row.waiting, row.failed))
        table.add_row(Text(row.name), *seeds)
    console = Console(soft_wrap=True, markup=False, highlight=False)
    console.print(table)
    for row in rows:
        if row.unreadable:
            console.print(f"{row.name} cannot be read: {row.unreadable}")
    failures = [Failure("" if row.name == "." else row.name, *cause) for row in rows for cause in row.causes.items()]
    for runs, cause in by_cause(failures):
        console.print(f"{runs} failed: {cause}")
    for name, whole in ensembles_in(directory).items():
        console.print(("" if name == "." else f"{name}: ") + _in_words(name, whole, rows))


def _in_words(place: str, whole: Ensemble, rows: Sequence[Survey]) -> str:
    """How far an ensemble is, and whether a process is at work on it."""
    from ..status import duration

    points = {str(Path(place, name)) for name in whole.points}
    done = sum(len(set(row.done) & set(whole.seeds)) for row in rows if row.name in points)
    left = f", about {duration(whole.seconds_left)} left" if whole.seconds_left else ""
    still = sum(len(row.running) for row in rows if row.name in points)
    now = f"at work: {whole.running} running{left} (as of {whole.written})" if whole.at_work else "no process is at work on it"
    if still and not whole.at_work:
        now += f" but those that have {still} run{'s' if still > 1 else ''} in hand"
    return f"{done} of {len(whole.points) * len(whole.seeds)} runs done; {now}"
