"""Grids: a TOML file, or a list of configurations, as named points in hyperparameter space."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import Config
from ..seeds import parse_seeds

_OPTIONS = ("engine", "backend", "rtol", "atol", "max_gradients", "save_params", "checkpoint_every", "threads", "device")
_DERIVED = ("alpha_max", "evaluations")


@dataclass(frozen=True)
class Grid:
    """What a sweep runs: named points, seeds, options for `simulate`, and the fields that vary from point to point."""

    points: dict[str, Config]
    seeds: list[int]
    options: dict[str, Any]
    axes: tuple[str, ...]


def read_grid(path: str | Path) -> Grid:
    """Read a sweep file.

    `preset`, `seeds`, options for `simulate` and any Config fields stand at the top; a table `[axes]` (field = list) is crossed,
    tables `[[points]]` are listed, and where both are there every point is crossed with the axes. Two fields that Config does not
    have set the training time: `alpha_max`, so that train_epochs = alpha_max d_g N, and `evaluations`, how many there are in it.
    """
    try:
        with open(path, "rb") as file:
            table = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"cannot read the sweep {path}: {error}") from None
    try:
        return _grid(table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _grid(table: dict[str, Any]) -> Grid:
    axes, points = table.pop("axes", {}), table.pop("points", [{}])
    preset, seeds = str(table.pop("preset", "main")), parse_seeds(str(table.pop("seeds", "0")))
    options = {key: table.pop(key) for key in _OPTIONS if key in table}
    if not isinstance(axes, dict) or not all(isinstance(values, list) and values for values in axes.values()):
        raise ValueError("[axes] must hold lists, as N = [8, 16, 32]")
    if not isinstance(points, list) or not points or not all(isinstance(point, dict) for point in points):
        raise ValueError("points must be tables [[points]]")
    both = sorted({key for point in points for key in point} & set(axes))
    if both:
        raise ValueError(f"{', '.join(both)} may stand in [[points]] or in [axes], not in both")
    named: dict[str, Config] = {}
    for point in points:
        listed = {key: value for key, value in point.items() if key != "name"}
        told = {key: value for key, value in listed.items() if key not in _DERIVED}
        for values in itertools.product(*axes.values()):
            crossed = dict(zip(axes, values, strict=True))
            label = ",".join([*([check_name(point["name"])] if "name" in point else _labels(told)), *_labels(crossed)])
            if label in named:
                raise ValueError(f"the point {label or '(no axes and no points)'} is there twice")
            named[label] = _config(preset, {**table, **listed, **crossed})
    varied = [key for point in points for key in point if key not in ("name", *_DERIVED)]
    return Grid(named, seeds, options, tuple(dict.fromkeys([*varied, *(key for key in axes if key not in _DERIVED)])))


def _config(preset: str, fields: dict[str, Any]) -> Config:
    """A Config from its fields and the two derived ones."""
    alpha_max, evaluations = (fields.get(key) for key in _DERIVED)
    cfg = Config.preset(preset, **{key: value for key, value in fields.items() if key not in _DERIVED})
    for derived, value, field in ((_DERIVED[0], alpha_max, "train_epochs"), (_DERIVED[1], evaluations, "eval_every")):
        if value is not None and field in fields:
            raise ValueError(f"{derived} and {field} exclude each other")
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf):
            raise ValueError(f"{derived} = {value!r} is not allowed; allowed: numbers above 0")
    epochs = cfg.train_epochs if alpha_max is None else max(1, round(alpha_max * cfg.d_g * cfg.N))
    every = min(cfg.eval_every, epochs) if evaluations is None else max(1, round(epochs / evaluations))
    return cfg.replace(train_epochs=epochs, eval_every=every)


def check_name(name: Any) -> str:
    """Pass on the name of a point, which is that of its directory: it may not lead elsewhere."""
    if not isinstance(name, str) or not re.fullmatch(r"[^/\\\0]+", name) or name in (".", ".."):
        raise ValueError(f"a point may not be named {name!r}; allowed: names of directories, without / and \\")
    return name


def point_names(configs: Sequence[Config]) -> list[str]:
    """A directory name for each of several configurations, from the fields in which they differ."""
    if not configs:
        raise ValueError("configs is empty; allowed: one Config or more")
    first = configs[0].model_dump()
    varied = [key for key in first if any(getattr(cfg, key) != first[key] for cfg in configs)]
    names = [",".join(_labels({key: getattr(cfg, key) for key in varied})) for cfg in configs]
    for name in names:
        if len(configs) > 1 and names.count(name) > 1:
            raise ValueError(f"configs holds the same configuration twice ({name or 'all are equal'})")
    return [name or "all" for name in names]


def _labels(fields: Mapping[str, Any]) -> list[str]:
    return [f"{key}={_short(value)}" for key, value in fields.items()]


def _short(value: Any) -> str:
    """A value as part of a file name; what does not fit stands there as eight hex digits."""
    text = str(value)
    if isinstance(value, float):
        text = f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return text if re.fullmatch(r"[\w.+-]{1,40}", text) else hashlib.sha256(text.encode()).hexdigest()[:8]
