"""Failures of an ensemble in words: those of one cause together, and seeds in the shortest form."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .errors import Failure
from .seeds import write_seeds


def by_cause(failures: Sequence[Failure]) -> list[tuple[str, str]]:
    """Who failed ("lr=2 seeds 0:4"), and why, for every cause; causes that differ in numbers alone are one."""
    groups: dict[str, list[Failure]] = {}
    for failure in failures:
        groups.setdefault(re.sub(r"[-+]?\d[\d.]*(e[-+]?\d+)?", "#", failure.cause), []).append(failure)
    return [(who(group), _why(group)) for group in groups.values()]


def who(failures: Sequence[Failure]) -> str:
    """Runs by point: "lr=2 seeds 0:4"."""
    seeds: dict[str, list[int]] = {}
    for failure in failures:
        seeds.setdefault(failure.point, []).append(failure.seed)
    names = [f"{point} seed{'s' if len(of) > 1 else ''} {write_seeds(of)}".strip() for point, of in seeds.items()]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more points" if len(names) > 4 else "")


def _why(failures: Sequence[Failure]) -> str:
    first = failures[0].cause
    return first if all(failure.cause == first for failure in failures) else f"for example {first}"
