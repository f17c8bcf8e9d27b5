"""`cotflow report`: the HTML report from saved records."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def report(
    directory: Annotated[Path, Parameter(help="A directory of records, or the results of `cotflow reproduce`.")],
    /,
    *,
    out: Annotated[Path | None, Parameter(help="Where to write report.html and report.json; by default the directory.")] = None,
) -> None:
    """Solve the theories that are missing, draw all figures and write the report; nothing is trained."""
    from ..figures.make import available, draw_all
    from ..report import main_runs, write
    from ..reproduce import solve_theories
    from ..results import Results

    main_runs(Results(directory))
    solve_theories(Results(directory), None, print)
    results, place = Results(directory), directory if out is None else out
    drawn = draw_all(results, available(results), place / "figures", inline=True)
    command = ["cotflow", "report", str(directory), *(["--out", str(out)] if out is not None else [])]
    print(write(results, drawn, place, shlex.join(command)))
