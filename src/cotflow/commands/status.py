"""`cotflow status`: what a directory of runs holds, at any time and from any terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def status(directory: Annotated[Path, Parameter(help="A directory of records, or of directories of them.")], /) -> None:
    """Finished, running, half-finished, waiting and failed seeds of every run directory."""
    from rich.console import Console
    from rich.table import Table

    from ..seeds import write_seeds
    from ..status import duration, ensemble_of, survey

    rows = survey(directory)
    table = Table("run", "done", "running", "unfinished", "waiting", "failed", title=str(directory))
    for row in rows:
        table.add_row(row.name, *map(write_seeds, (row.done, row.running, row.unfinished, row.waiting, row.failed)))
    console = Console(soft_wrap=True)
    console.print(table)
    for row in rows:
        for seed, cause in row.causes.items():
            console.print(f"{row.name} seed {seed} failed: {cause}", markup=False, highlight=False)
    whole = ensemble_of(directory)
    if whole is not None:
        places = {str(Path(name)) for name in whole.points}
        done = sum(len(set(row.done) & set(whole.seeds)) for row in rows if row.name in places)
        total = len(whole.points) * len(whole.seeds)
        left = f", about {duration(whole.seconds_left)} left" if whole.seconds_left else ""
        now = (
            f"at work: {whole.running} running{left} (as of {whole.written})" if whole.at_work else "no process is at work on it"
        )
        console.print(f"{done} of {total} runs done; {now}", markup=False, highlight=False)
