"""A sweep as a table, one row a point; as a phase diagram over two or more of its fields; and both as files.

>>> import cotflow as cf
>>> cf.tables.phase_diagram(cf.tables.sweep_table("results/sweep"), "N", "d_g").rollout_alpha.plot()  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from .config import Config
from .files import FileFault, replacing, write_text
from .runs import written_config
from .statistics import transition
from .status import plan_of
from .trajectory import SPLITS, config_of, failed_files, load, record_files

#: Curves whose crossing of a level is a transition: column and variable.
TRANSITIONS = {"A": "A", "next_token": "next_token_accuracy", "rollout": "rollout_accuracy"}
_FINAL = ("A", "R", "S", "loss", "next_token_accuracy", "rollout_accuracy")


def sweep_table(results: str | Path | Mapping[str, xr.Dataset], split: str = "test", level: float = 0.5) -> xr.Dataset:
    """One row a point, along `point`: its varying Config fields as coordinates, and over its seeds

    - mean and standard deviation (`_std`) at the end of training of A, R, S, loss and accuracies on `split`;
    - `loss_gap` and `accuracy_gap`, test loss minus train loss and train minus test rollout accuracy;
    - `A_alpha`, `next_token_alpha`, `rollout_alpha`: the median alpha at which each crosses `level`, with bootstrap interval
      `_low`, `_high`, and the fraction of seeds that cross, `_crossed`;
    - `seeds` finished and `failed`, mean gradient evaluations and seconds.

    `results` is a directory of a sweep, whose points are those of its last run, or Datasets by name. Of a directory one point at
    a time is in memory. A point without a configuration, as when its directory is gone, has no fields.
    """
    if isinstance(results, xr.Dataset):
        raise ValueError(
            "results is one Dataset; allowed: the directory of a sweep, or a dict of Datasets by the names of points"
        )
    if split not in SPLITS:
        raise ValueError(f"split = {split!r} is not allowed; allowed: {', '.join(SPLITS)}")
    rows, configs = {}, {}
    for name, cfg, runs, failed in _given(results) if isinstance(results, Mapping) else _saved(Path(results)):
        configs[name] = cfg
        rows[name] = {**_row(runs, split, level), "failed": float(failed)}
    if not rows:
        told = "results is empty" if isinstance(results, Mapping) else f"{results} holds no point of a sweep"
        raise FileFault(f"{told}; allowed: a directory of directories with config.toml, or Datasets by the names of points")
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    return xr.Dataset(
        {c: ("point", np.array([row.get(c, np.nan) for row in rows.values()])) for c in columns},
        coords={"point": list(rows), **_fields(list(configs.values()))},
        attrs={"split": split, "transitions": ", ".join(f"{column}: {name} = {level}" for column, name in TRANSITIONS.items())},
    )


def phase_diagram(table: xr.Dataset, *fields: str) -> xr.Dataset:
    """A table over a grid: each of `fields` becomes a dimension, in ascending order, with NaN where no point is.

    Without `fields`, all those that vary and are not tied to another (as train_epochs is to N). Points without fields are left
    out.
    """
    table = table.isel(point=np.flatnonzero(_has_fields(table)))
    fields = fields or _untied(table)
    unknown = [field for field in fields if field not in table.coords or field == "point"]
    if unknown or not fields:
        allowed = ", ".join(str(c) for c in table.coords if c != "point")
        raise ValueError(f"fields = {', '.join(unknown) or 'none'} do not vary in this table; allowed: {allowed}")
    keys = list(zip(*(table[field].values.tolist() for field in fields), strict=True))
    repeated = sorted({str(key) for key in keys if keys.count(key) > 1})
    if repeated:
        raise ValueError(f"several points have the same {', '.join(fields)} ({repeated[0]}); choose points first, or more fields")
    axes = [sorted({key[i] for key in keys}) for i in range(len(fields))]
    place = tuple(np.array([axes[i].index(key[i]) for key in keys]) for i in range(len(fields)))
    made = {}
    for name, column in table.data_vars.items():
        values = np.full([len(axis) for axis in axes], np.nan)
        values[place] = column.values
        made[name] = (fields, values)
    return xr.Dataset(made, coords=dict(zip(fields, axes, strict=True)), attrs=table.attrs)


def export(data: xr.Dataset, path: str | Path) -> Path:
    """Write a table or a phase diagram as .csv or as .nc (NetCDF), atomically."""
    path = Path(path)
    if "epoch" in data.dims and "statistic" not in data.dims:
        raise ValueError(
            "data is a trajectory, whose file cf.save writes; allowed: a sweep_table, a phase_diagram, or statistics"
        )
    if path.suffix == ".csv":
        write_text(path, _flat(data).to_csv(index=False))
    elif path.suffix == ".nc":
        with replacing(path, path.suffix) as beside:
            data.to_netcdf(beside)
    else:
        raise ValueError(f"path = {str(path)!r} is not allowed; allowed: names that end in .csv or .nc")
    return path


def _flat(data: xr.Dataset) -> Any:
    """A data frame with the coordinates in its first columns."""
    frame = data.to_dataframe().reset_index()
    first = [str(name) for name in data.coords]
    return frame[[*first, *(name for name in frame.columns if name not in first)]]


_Point = tuple[str, Config | None, xr.Dataset | None, int]


def _given(results: Mapping[str, xr.Dataset]) -> Iterator[_Point]:
    """Points, as `ensemble` returns them."""
    for name, runs in results.items():
        if not isinstance(runs, xr.Dataset) or ("seed" not in runs.dims and runs.sizes):
            raise ValueError(f"results[{name!r}] is not the runs of one or more seeds; allowed: what cf.load(directory) returns")
        cfg = config_of(runs) if "config" in runs.attrs else None
        yield name, cfg, runs if "seed" in runs.dims else None, len(runs.attrs.get("missing", []))


def _saved(directory: Path) -> Iterator[_Point]:
    """Points of the sweep in a directory; of every directory with a configuration where there is no sweep."""
    plan = plan_of(directory)
    if plan is not None:
        places = [directory / name for name in plan["points"]]
    else:
        places = sorted(file.parent for file in directory.rglob("config.toml"))
    for place in dict.fromkeys(places):
        done = record_files(place) if place.is_dir() else {}
        runs = load(place, done, weights=False) if done else None
        failed = len(set(failed_files(place)) - set(done)) if place.is_dir() else 0
        cfg = written_config(place)
        if cfg is None and runs is not None:
            cfg = config_of(runs)
        yield str(place.relative_to(directory)), cfg, runs, failed


def _row(runs: xr.Dataset | None, split: str, level: float) -> dict[str, float]:
    if runs is None:
        return {"seeds": 0.0}
    last = runs[list(_FINAL)].isel(epoch=-1)
    row: dict[str, float] = {}
    for name in _FINAL:
        values = last[name].sel(split=split) if "split" in last[name].dims else last[name]
        row[name] = float(values.mean())
        row[f"{name}_std"] = float(values.std(ddof=1)) if values.size > 1 else np.nan
    train, test = last.sel(split="train"), last.sel(split="test")
    row["loss_gap"] = float((test.loss - train.loss).mean())
    row["accuracy_gap"] = float((train.rollout_accuracy - test.rollout_accuracy).mean())
    for column, name in TRANSITIONS.items():
        made = transition(runs, name, level, split)
        row[f"{column}_alpha"] = float(made.alpha)
        row |= {f"{column}_{part}": float(made[part]) for part in ("low", "high", "crossed")}
    for name in ("gradients", "wall_seconds"):
        if name in runs:
            row[name] = float(runs[name].mean())
    return {**row, "seeds": float(runs.sizes["seed"])}


def _fields(configs: Sequence[Config | None]) -> dict[str, Any]:
    """Config fields that differ between points, as coordinates; what is not a number or a word stands there as text."""
    dumps = [cfg.model_dump() if cfg else {} for cfg in configs]
    known = [dump for dump in dumps if dump]
    varied = [key for key in Config.model_fields if any(dump[key] != known[0][key] for dump in known)]
    return {key: ("point", _column([dump.get(key) for dump in dumps])) for key in varied}


def _column(values: list[Any]) -> np.ndarray:
    """Values of a field; where there is none, NaN among numbers and an empty word among words."""
    numbers = all(isinstance(value, int | float) for value in values if value is not None)
    absent = np.nan if numbers else ""
    return np.array([absent if value is None else value if numbers else str(value) for value in values])


def _has_fields(table: xr.Dataset) -> np.ndarray:
    """Which points have a configuration."""
    there = np.ones(table.sizes["point"], dtype=bool)
    for name in (name for name in table.coords if name != "point"):
        values = table[name].values
        there &= values != "" if values.dtype.kind == "U" else ~np.isnan(values.astype(float))
    return there


def _untied(table: xr.Dataset) -> tuple[str, ...]:
    """Coordinates that tell points apart, without those that are a function of others before them."""
    chosen: tuple[str, ...] = ()
    groups = 1
    for name in (str(c) for c in table.coords if c != "point"):
        tried = (*chosen, name)
        found = len(set(zip(*(table[field].values.tolist() for field in tried), strict=True)))
        if found > groups:
            chosen, groups = tried, found
    return chosen
