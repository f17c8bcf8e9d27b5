"""A sweep as a table, one row a point; as a phase diagram over two or more of its fields; and both as files.

>>> import cotflow as cf
>>> cf.tables.phase_diagram(cf.tables.sweep_table("results/sweep"), "N", "d_g").rollout_alpha.plot()  # doctest: +SKIP
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from .config import Config
from .files import FileFault, write_text
from .statistics import transition
from .status import ensemble_of
from .trajectory import config_of, failed_files, load, record_files

#: Curves whose crossing of a level is a transition: column, variable, level.
TRANSITIONS = (("A", "A", 0.5), ("next_token", "next_token_accuracy", 0.5), ("rollout", "rollout_accuracy", 0.5))
_FINAL = ("A", "R", "S", "loss", "next_token_accuracy", "rollout_accuracy")


def sweep_table(results: str | Path | Mapping[str, xr.Dataset], split: str = "test") -> xr.Dataset:
    """One row a point, along `point`: its varying Config fields as coordinates, and over its seeds

    - mean and standard deviation (`_std`) at the end of training of A, R, S, loss and accuracies on `split`;
    - `loss_gap` and `accuracy_gap`, test loss minus train loss and train minus test rollout accuracy;
    - `A_alpha`, `next_token_alpha`, `rollout_alpha`: the median alpha at which each crosses 1/2, with bootstrap interval `_low`,
      `_high`, and the fraction of seeds that cross, `_crossed`;
    - `seeds` finished and `failed`, mean gradient evaluations and seconds.

    `results` is a directory of a sweep, or Datasets by name. Of a directory one point at a time is in memory.
    """
    rows, configs = {}, {}
    for name, cfg, runs, failed in _points(results):
        configs[name] = cfg
        rows[name] = {**_row(runs, split), "failed": float(failed)}
    if not rows:
        raise FileFault(f"{results} holds no point of a sweep (a directory with config.toml)")
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    table = xr.Dataset(
        {c: ("point", np.array([row.get(c, np.nan) for row in rows.values()])) for c in columns},
        coords={"point": list(rows), **_fields(list(configs.values()))},
        attrs={"split": split, "transitions": ", ".join(f"{column}: {name} = {level}" for column, name, level in TRANSITIONS)},
    )
    return table


def phase_diagram(table: xr.Dataset, *fields: str) -> xr.Dataset:
    """A table over a grid: each of `fields` becomes a dimension, in ascending order, with NaN where no point is.

    Without `fields`, all those that vary and are not tied to another (as train_epochs is to N).
    """
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
    if path.suffix == ".csv":
        write_text(path, _flat(data).to_csv(index=False))
    elif path.suffix == ".nc":
        _replace(path, lambda name: data.to_netcdf(name))
    else:
        raise ValueError(f"path = {str(path)!r} is not allowed; allowed: names that end in .csv or .nc")
    return path


def _flat(data: xr.Dataset) -> Any:
    """A data frame with the coordinates in its first columns."""
    frame = data.to_dataframe().reset_index()
    first = [str(name) for name in data.coords]
    return frame[[*first, *(name for name in frame.columns if name not in first)]]


def _points(results: str | Path | Mapping[str, xr.Dataset]) -> Iterator[tuple[str, Config, xr.Dataset | None, int]]:
    if isinstance(results, Mapping):
        for name, runs in results.items():
            if "seed" in runs.dims:
                yield name, config_of(runs), runs, len(runs.attrs.get("missing", []))
        return
    directory = Path(results)
    whole = ensemble_of(directory)
    order = [directory / name for name in whole.points] if whole else []
    places = dict.fromkeys([*order, *sorted(file.parent for file in directory.rglob("config.toml"))])
    for place in places:
        done = record_files(place)
        runs = load(place, done, weights=False) if done else None
        failed = len(set(failed_files(place)) - set(done))
        yield str(place.relative_to(directory)), Config.from_toml(place / "config.toml"), runs, failed


def _row(runs: xr.Dataset | None, split: str) -> dict[str, float]:
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
    for column, name, level in TRANSITIONS:
        made = transition(runs, name, level, split)
        row[f"{column}_alpha"] = float(made.alpha)
        row |= {f"{column}_{part}": float(made[part]) for part in ("low", "high", "crossed")}
    for name in ("gradients", "wall_seconds"):
        if name in runs:
            row[name] = float(runs[name].mean())
    return {**row, "seeds": float(runs.sizes["seed"])}


def _fields(configs: Iterable[Config]) -> dict[str, Any]:
    """Config fields that differ between points, as coordinates; what is not a number or a word stands there as text."""
    dumps = [cfg.model_dump() for cfg in configs]
    varied = [key for key in dumps[0] if any(dump[key] != dumps[0][key] for dump in dumps)]
    plain = lambda value: value if isinstance(value, int | float | str) else str(value)  # noqa: E731
    return {key: ("point", np.array([plain(dump[key]) for dump in dumps])) for key in varied}


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


def _replace(path: Path, write: Callable[[str], Any]) -> None:
    """Let `write(name)` make a neighbouring file, then put it in the place of `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    try:
        write(name)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
