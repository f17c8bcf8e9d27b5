"""The theory of the learning curve: the paper's, and two tiers beyond it.

`closure` (tier 1) is the paper's; `quenched` (tier 2) follows attention weight by weight; `column` (tier 3) follows every
column of every matrix. `early` and `onset` are limits of the closure. Each returns a trajectory.
"""

from __future__ import annotations

from typing import Any

import xarray as xr

from ..config import Config
from .border import Seeds
from .closure import closure
from .column import column
from .limits import early, onset
from .quenched import quenched

__all__ = ["TIERS", "closure", "column", "early", "onset", "quenched", "solve"]

#: Every theory by name; "closure", "early" and "onset" know no seed.
TIERS = {"closure": closure, "quenched": quenched, "column": column, "early": early, "onset": onset}
_SEEDED = ("quenched", "column")


def solve(tier: str, cfg: Config, seed: Seeds = None, **options: Any) -> xr.Dataset:
    """Any tier of theory by name, for a seed (or several, or fresh draws) where the tier knows one.

    `options` are those of the tier's own function. A seed for a tier that knows none is refused.

    >>> solve("closure", Config.preset("smoke")).attrs["engine"]
    'theory-closure'
    """
    if tier not in TIERS:
        raise ValueError(f"tier = {tier!r} does not exist; allowed: {', '.join(TIERS)}")
    if tier in _SEEDED:
        return TIERS[tier](cfg, seed, **options)
    if seed is not None:
        raise ValueError(f"seed = {seed!r} is not allowed: theory tier {tier!r} knows no seed; allowed: None")
    return TIERS[tier](cfg, **options)
