"""`cotflow verify`: whether this installation computes the right things."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from ..checking import Result


def verify() -> None:
    """Check in half a minute that this installation computes the right things; exit code 1 where it does not."""
    from rich.console import Console
    from rich.live import Live

    from ..verify import CHECKS
    from ..verify import verify as checks

    started, results = time.monotonic(), []
    console = Console() if sys.stdout.isatty() else Console(width=80)
    try:
        if console.is_terminal:
            with Live(console=console, auto_refresh=False) as live:
                for result in checks():
                    results.append(result)
                    live.update(table_of(results), refresh=True)
        else:
            results.extend(checks())
            console.print(table_of(results))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {len(results)} of {len(CHECKS)} checks were done") from None
    failed, skipped = ([result for result in results if result.ok is ok] for ok in (False, None))
    for result in [*failed, *skipped]:
        if result.note:
            console.print(f"{result.name}: {result.note}", markup=False, highlight=False)
    passed = len(results) - len(failed) - len(skipped)
    told = f"{passed} of {len(CHECKS)} checks passed" + (f", {len(skipped)} skipped" if skipped else "")
    console.print(f"{told}; {time.monotonic() - started:.0f} s", highlight=False)
    if failed:
        raise RuntimeError(f"{len(failed)} of {len(CHECKS)} checks failed; this installation does not compute the right things")


def table_of(results: list[Result]) -> Table:
    """One line a check: name, measured figure, limit, verdict."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table("check", box=SIMPLE_HEAD)
    for name in ("measured", "limit"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for result in results:
        measured = "" if result.measured != result.measured else f"{result.measured:.2g}"
        verdict = {True: "[green]ok[/]", False: "[bold red]FAILED[/]", None: "[yellow]skipped[/]"}[result.ok]
        table.add_row(result.name, measured, f"{result.limit:.2g}", verdict)
    return table
