"""cotflow: how attention and logic learn together when a transformer learns to track a state.

>>> import cotflow as cf
>>> run = cf.simulate(cf.Config.preset("smoke"), seed=0)
>>> bool(run.rollout_accuracy.sel(split="test")[-1] > 0.9)
True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import figures, statistics, tables, theory
    from .config import Config
    from .engines import simulate
    from .ensembles import ensemble
    from .gradients import gradient, rollout
    from .params import Params
    from .task import Split, Task
    from .trajectory import config_of, load, save

# Loaded on first use: `cotflow --help` answers at once, and only what is used is imported.
_HOMES = {
    "Config": ".config",
    "Params": ".params",
    "Split": ".task",
    "Task": ".task",
    "config_of": ".trajectory",
    "ensemble": ".ensembles",
    "figures": ".figures",
    "gradient": ".gradients",
    "load": ".trajectory",
    "rollout": ".gradients",
    "save": ".trajectory",
    "simulate": ".engines",
    "statistics": ".statistics",
    "tables": ".tables",
    "theory": ".theory",
}
__all__ = [
    "Config",
    "Params",
    "Split",
    "Task",
    "config_of",
    "ensemble",
    "figures",
    "gradient",
    "load",
    "rollout",
    "save",
    "simulate",
    "statistics",
    "tables",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'cotflow' has no attribute {name!r}")
    module = importlib.import_module(_HOMES[name], __name__)
    value = module if name in ("figures", "statistics", "tables", "theory") else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
