"""`cotflow status`: what a directory of runs holds, at any time and from any terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def status(directory: Annotated[Path, Parameter(help="A directory of records, or of directories of them.")], /) -> None:
    """Finished, running, half-finished and failed seeds of every run directory."""
    from rich.console import Console
    from rich.table import Table

    from ..status import survey

    table = Table("run", "done", "running", "unfinished", "failed", title=str(directory))
    for row in survey(directory):
        table.add_row(row.name, _seeds(row.done), _seeds(row.running), _seeds(row.unfinished), _seeds(row.failed))
    Console(soft_wrap=True).print(table)


def _seeds(seeds: list[int]) -> str:
    """0-99 rather than a hundred numbers."""
    parts: list[str] = []
    start = previous = None
    for seed in [*seeds, None]:
        if previous is not None and seed == previous + 1:
            previous = seed
            continue
        if start is not None:
            parts.append(str(start) if start == previous else f"{start}-{previous}")
        start = previous = seed
    return ", ".join(parts)
