"""`cotflow bench`: the gradient kernels side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from .options import ConfigFlag, Fields, PresetFlag, build_config


def bench(
    *,
    preset: PresetFlag = None,
    config: ConfigFlag = None,
    fields: Fields | None = None,
    threads: Annotated[
        tuple[int, ...],
        Parameter(help="Numbers of threads to time; 1 2 by default.", show_default=False, consume_multiple=True, negative=()),
    ] = (1, 2),
    rounds: Annotated[int, Parameter(help="Turns of every formulation.")] = 25,
    formulations: Annotated[
        tuple[str, ...],
        Parameter(
            help="Some of fused, bag, gather, literal; all by default.", show_default=False, consume_multiple=True, negative=()
        ),
    ] = (),
    scaling: Annotated[bool, Parameter(help="Also the fused kernel as N, L and n grow.", negative=())] = False,
    json: Annotated[bool, Parameter(help="Print JSON.", negative=())] = False,
    output: Annotated[Path | None, Parameter(help="Write to a file instead.")] = None,
) -> None:
    """Time one full-batch gradient: the fused kernel beside PyTorch formulations, formulations taking turns."""
    from .. import benchmark
    from ..files import write_text

    cfg = build_config(preset, config, fields)
    if scaling:
        benchmark.grown(cfg)  # what cannot be grown is told before minutes are spent
    timings = benchmark.compare(cfg, threads, rounds, formulations or None)
    grown = benchmark.scaling(cfg, threads[0], min(rounds, 9)) if scaling else None
    text = benchmark.report(cfg, timings, grown, json)
    if output is not None:
        write_text(output, text)
    else:
        sys.stdout.write(text + ("\n" if json else ""))
    if not formulations and {timing.name for timing in timings} == {"fused"}:
        print("PyTorch is not installed, so its formulations are left out: pip install 'cotflow[torch]'", file=sys.stderr)
