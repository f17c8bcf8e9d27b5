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
from ..engines.options import NAMES
from ..seeds import parse_seeds
from ..task import check_seed

_DERIVED = ("alpha_max", "evaluations")
#: Bytes that the name of a point may have; file systems take 255.
_LONGEST = 200
_OURS = re.compile(r"seed_\d+\..*|(config|grid)\.toml|ensemble\.json|(summary|report)\..*|figures|theory")


@dataclass(frozen=True)
class Grid:
    """What a sweep runs: named points, seeds, options for `simulate`, and the fields that vary from point to point."""

    points: dict[str, Config]
    seeds: list[int]
    options: dict[str, Any]
    axes: tuple[str, ...]


def read_grid(path: str | Path) -> Grid:
    """Read a sweep file.

    `preset`, `seeds` ("0:20" or a list), options for `simulate` and any Config fields stand at the top; a table `[axes]` (field =
    list) is crossed, tables `[[points]]` are listed, and where both are there every point is crossed with the axes. Two fields
    that Config does not have set the training time: `alpha_max`, so that train_epochs = alpha_max d_g N, and `evaluations`, how
    many there are in it.
    """
    try:
        with open(path, "rb") as file:
            table = tomllib.load(file)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"cannot read the sweep {path}: {error}") from None
    try:
        return _grid(table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _grid(table: dict[str, Any]) -> Grid:
    axes, points = table.pop("axes", {}), table.pop("points", [{}])
    preset, seeds = str(table.pop("preset", "main")), _seeds(table.pop("seeds", "0"))
    options = {key: table.pop(key) for key in sorted(NAMES & table.keys())}
    if not isinstance(axes, dict):
        raise ValueError("[axes] must be a table of lists, as N = [8, 16, 32]")
    for name, values in axes.items():
        if not isinstance(values, list) or not values:
            raise ValueError(
                f"[axes] {name} = {values!r} is not allowed; allowed: a list of one value or more, as N = [8, 16, 32]"
            )
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
            label = _name([*([check_name(point["name"])] if "name" in point else _labels(told)), *_labels(crossed)])
            if label in named:
                raise ValueError(f"the point {label or '(no axes and no points)'} is there twice")
            named[label] = _config(preset, {**table, **listed, **crossed})
    varied = [key for point in points for key in point if key not in ("name", *_DERIVED)]
    return Grid(named, seeds, options, tuple(dict.fromkeys([*varied, *(key for key in axes if key not in _DERIVED)])))


def _seeds(value: Any) -> list[int]:
    if isinstance(value, list) and value:
        return sorted({check_seed(seed) for seed in value})
    return parse_seeds(str(value))


def _config(preset: str, fields: dict[str, Any]) -> Config:
    """A Config from its fields and the two derived ones, which are told from the others before anything is checked."""
    unknown = [key for key in fields if key not in (*Config.model_fields, *_DERIVED)]
    if "name" in unknown:
        raise ValueError("name is for [[points]], each of which may have one; it is no field of a configuration")
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}; allowed: {', '.join((*Config.model_fields, *_DERIVED))}")
    plain = {key: value for key, value in fields.items() if key not in _DERIVED}
    for derived, field in zip(_DERIVED, ("train_epochs", "eval_every"), strict=True):
        value = fields.get(derived)
        if value is not None and field in fields:
            raise ValueError(f"{derived} and {field} exclude each other")
        if value is not None and (not _is_number(value) or value <= 0):
            raise ValueError(f"{derived} = {value!r} is not allowed; allowed: numbers above 0")
    alpha_max, evaluations = (fields.get(key) for key in _DERIVED)
    base = Config.preset(preset)
    shape = Config.preset(preset, **{**plain, "train_epochs": 0, "eval_every": 1})
    epochs = plain.get("train_epochs", base.train_epochs)
    if alpha_max is not None:
        epochs = max(1, round(alpha_max * shape.d_g * shape.N))
    every = plain.get("eval_every", base.eval_every)
    if evaluations is not None and _is_number(epochs):
        every = max(1, round(epochs / evaluations))
    elif alpha_max is not None and "eval_every" not in plain:
        every = min(every, epochs)
    return shape.replace(train_epochs=epochs, eval_every=every)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def check_name(name: Any) -> str:
    """Pass on the name of a point, which is that of its directory: it may not lead elsewhere, nor be that of a file of ours."""
    plain = (
        isinstance(name, str) and name.isprintable() and re.fullmatch(r"[^./\\][^/\\]*", name) and len(name.encode()) <= _LONGEST
    )
    if not plain or _OURS.fullmatch(name):
        raise ValueError(
            f"a point may not be named {name!r}; allowed: names of directories up to {_LONGEST} bytes, without / and \\, that do "
            "not begin with a dot and are not those of files that cotflow writes"
        )
    return name


def point_names(configs: Sequence[Config]) -> list[str]:
    """A directory name for each of several configurations, from the fields in which they differ."""
    first = configs[0].model_dump()
    varied = [key for key in first if any(getattr(cfg, key) != first[key] for cfg in configs)]
    names = [_name(_labels({key: getattr(cfg, key) for key in varied})) for cfg in configs]
    for name in names:
        if len(configs) > 1 and names.count(name) > 1:
            raise ValueError(f"configs holds the same configuration twice ({name or 'all are equal'})")
    return [name or "all" for name in names]


def _name(labels: Sequence[str]) -> str:
    """Labels as the name of a directory; one that no file system takes is cut, and ends in a hash of all of it."""
    name = ",".join(labels)
    if len(name.encode()) <= _LONGEST:
        return name
    return f"{name.encode()[: _LONGEST - 9].decode(errors='ignore')}~{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _labels(fields: Mapping[str, Any]) -> list[str]:
    return [f"{key}={_short(value)}" for key, value in fields.items()]


def _short(value: Any) -> str:
    """A value as part of a file name; what does not fit stands there as eight hex digits."""
    text = str(value)
    if isinstance(value, float):
        text = f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return text if re.fullmatch(r"[\w.+-]{1,40}", text) else hashlib.sha256(text.encode()).hexdigest()[:8]
