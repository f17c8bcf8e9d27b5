"""`cotflow figures`: draw figures from saved records."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def figures(
    directory: Annotated[Path, Parameter(help="A directory of records, or the results of `cotflow reproduce`.")],
    /,
    *,
    out: Annotated[Path | None, Parameter(help="Where to write; by default figures/ in the directory.")] = None,
    only: Annotated[str | None, Parameter(help="Some figures, as order_parameters,rollout; else all.")] = None,
    without: Annotated[str, Parameter(help="Tiers of theory to leave out, as quenched,column.", show_default=False)] = "",
    format: Annotated[str, Parameter(help="png, pdf, svg, separated by commas.")] = "png,pdf",
) -> None:
    """Draw the figures that the records suffice for, with the theories that belong to them; captions are printed."""
    from ..figures.make import available, draw_all
    from ..figures.output import check_formats
    from ..figures.words import count
    from ..reproduce import solve_theories
    from ..results import TIERS, Results

    left_out = _names(without)
    unknown = [tier for tier in left_out if tier not in TIERS]
    if unknown:
        raise ValueError(f"without = {', '.join(unknown)!r} is not allowed; allowed: {', '.join(TIERS)}")
    check_formats(_names(format))
    results = Results(directory)
    names = available(results, _names(only) if only is not None else None)
    if not names:
        points = [str(place) for place in results.points("sweep").values()]
        of_one = f"; it holds {count(len(points), 'directory', 'directories')} of records, such as {points[0]}" if points else ""
        raise ValueError(f"{directory} holds no records for any figure asked for{of_one}")
    solve_theories(Results(directory), None, print, names, without=left_out)
    place = directory / "figures" if out is None else out
    width = min(shutil.get_terminal_size().columns, 100)
    for drawn in draw_all(Results(directory), names, place, _names(format), without=left_out):
        print(" ".join(map(str, drawn.files)))
        print(textwrap.fill(drawn.caption, width, initial_indent="  ", subsequent_indent="  "))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
