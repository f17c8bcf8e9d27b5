"""Options of an ensemble for `simulate`, checked before work begins: what one run would refuse, all would."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ..config import Config
from ..engines.options import NAMES, check_config
from ..engines.options import check_options as check_run_options


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options for `simulate`, one thread a run unless another number is given; unknown and impossible ones are refused."""
    unknown = sorted(set(options) - NAMES)
    if unknown:
        raise ValueError(f"ensemble takes no option {', '.join(unknown)}; allowed: {', '.join(sorted(NAMES))}")
    given = check_run_options(options)
    return {"threads": 1, **given} if given.get("backend", "fused") == "fused" else given


def check_points(points: Mapping[str, Config], options: Mapping[str, Any]) -> None:
    """Refuse what an engine or a backend cannot represent of any point, and epochs that it does not have."""
    for name, cfg in points.items():
        try:
            check_config(cfg, options)
        except ValueError as refusal:
            raise ValueError(f"{name}: {refusal}" if name else str(refusal)) from None


def require_importable(options: Mapping[str, Any]) -> None:
    """Refuse one's own engine or backend where worker processes cannot find it: they do not import the caller's script."""
    for name in ("engine", "backend"):
        value = options.get(name)
        while isinstance(value, functools.partial):
            value = value.func
        home = value if callable(value) else type(value)
        if home.__module__ == "__main__":
            raise ValueError(
                f"{name} {home.__name__} is defined in the script itself, which worker processes do not import; put it into a "
                "module of its own, or run in threads: executor=ThreadPoolExecutor(2)"
            )
