"""`cotflow reproduce`: the paper with one command."""

from __future__ import annotations

import shutil
import sys
import textwrap
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..seeds import parse_seeds
from .options import SEEDS, ConfigFlag, Fields, PresetFlag, Whole, build_config


def reproduce(
    *,
    seeds: Annotated[str, Parameter(help=SEEDS)] = "0:100",
    all: Annotated[
        bool, Parameter(help="Also the second table (Figures 7 to 10), variations, one seed step by step.", negative="")
    ] = False,
    out: Annotated[Path, Parameter(help="Directory of all results.")] = Path("results"),
    workers: Annotated[Whole, Parameter(help="Processes; as many as cores by default.")] = None,
    preset: PresetFlag = None,
    config: ConfigFlag = None,
    fields: Fields | None = None,
) -> None:
    """Train what is missing, solve the theories, draw the paper's Figures 1 to 6 and more, and write the report.

    With --all it draws every figure of the paper. Interrupted, the same command goes on. Preset, file and fields put another
    configuration in the place of the main table.
    """
    from ..reproduce import reproduce as run

    if workers is not None and workers < 1:
        raise ValueError(f"workers = {workers} is not allowed; allowed: 1 or more")
    run(parse_seeds(seeds), out, all, build_config(preset, config, fields), workers=workers, say=_say)


def _say(text: str) -> None:
    if sys.stdout.isatty():
        text = textwrap.fill(text, shutil.get_terminal_size().columns, subsequent_indent="  ")
    print(text, flush=True)
