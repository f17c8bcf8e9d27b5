"""Lists of seeds as people write them: 0:100, 3, or 0,3,7."""

from __future__ import annotations

import re
from collections.abc import Iterable


def parse_seeds(text: str) -> list[int]:
    """Seeds from "0:100" (100 excluded), "3", "0,3,7" or a mixture, sorted."""
    seeds: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?::(\d+))?\s*", part)
        if not match or (match[2] is not None and int(match[2]) <= int(match[1])):
            raise ValueError(f"seeds = {text!r} is not allowed; allowed: 0:100 (100 excluded), 3, or 0,3,7")
        seeds |= set(range(int(match[1]), int(match[2]) if match[2] is not None else int(match[1]) + 1))
    return sorted(seeds)


def write_seeds(seeds: Iterable[int]) -> str:
    """Seeds in the shortest form that `parse_seeds` reads back.

    >>> write_seeds([0, 1, 2, 3, 7])
    '0:4,7'
    """
    runs: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}:{run[-1] + 1}" for run in runs)
