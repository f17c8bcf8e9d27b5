"""The one language of simulation and theory: a labelled learning curve, its file, and a directory of them.

A trajectory is an `xarray.Dataset` along `epoch` (with coordinate `alpha`). Whatever produced it, its variables mean the same; a
theory fills those that it predicts. Values along `split` ("train", "test") are a simulation's.
"""

from __future__ import annotations

import json
import platform
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from .config import Config
from .files import FORMAT, FileFault, read_archive, write_archive
from .observables import SPLIT_OBSERVABLES
from .params import Params
from .seeds import write_seeds
from .task import check_seed

SPLITS = ("train", "test")
#: Dimensions of every variable after `epoch`, with what it is; those in `SPLIT_OBSERVABLES` have `split` too in a simulation.
SCHEMA: dict[str, tuple[tuple[str, ...], str]] = {
    "A": ((), "attention on the correct action, mean over positions"),
    "R": ((), "overlap of the logic matrices with their own teacher matrices"),
    "S": ((), "overlap of the logic matrices with the other teacher matrices"),
    "zeta": ((), "mean over actions and states of the summed logits"),
    "loss": ((), "mean cross-entropy of the next token"),
    "next_token_accuracy": ((), "teacher-forced accuracy of the next token"),
    "rollout_accuracy": ((), "accuracy of the last state of an autoregressive rollout"),
    "mu_k": ((), "mean correct logit"),
    "var_k": ((), "variance of the correct logit"),
    "mu_o": ((), "mean of the other logits"),
    "var_o": ((), "variance of the other logits"),
    "attention": (("t", "j"), "attention of predictor position t on action j"),
}
_WEIGHT_DIMS = {
    "w_q": ("head", "model"),
    "w_k": ("head", "model"),
    "m": ("action", "next_state", "state"),
    "embedding": ("token", "model"),
}
#: Attributes that differ between two runs with the same result.
VOLATILE = ("wall_seconds", "created")
#: Attributes that make up a record's identity, beside its configuration and seed.
IDENTITY = ("engine", "backend", "rtol", "atol", "started_from", "format")
#: Gaps in the numbering of seeds are told up to here; beyond, seeds are not numbered one by one.
GAPS = 1000


def trajectory(cfg: Config, epochs: Sequence[int] | np.ndarray, curves: Mapping[str, np.ndarray], **attrs: Any) -> xr.Dataset:
    """Label curves of shape (epochs, ...) as a trajectory, with the config and `attrs` as attributes."""
    epochs = np.asarray(epochs)
    unknown = set(curves) - set(SCHEMA)
    if unknown:
        raise ValueError(f"a trajectory has no variable {', '.join(sorted(unknown))}; allowed: {', '.join(SCHEMA)}")
    variables = {}
    for name, values in curves.items():
        extra, meaning = SCHEMA[name]
        values = np.asarray(values, dtype=np.float64)
        with_split = name in SPLIT_OBSERVABLES and values.ndim == 2 + len(extra)
        dims = ("epoch", *(("split",) if with_split else ()), *extra)
        variables[name] = (dims, values, {"long_name": meaning})
    data = xr.Dataset(variables, coords={"epoch": epochs, "alpha": ("epoch", epochs * cfg.alpha_per_epoch)})
    if "split" in data.dims:
        data = data.assign_coords(split=list(SPLITS))
    data.alpha.attrs["long_name"] = "training time, epochs / (d_g N)"
    data.attrs = {**provenance(cfg), **{key: value for key, value in attrs.items() if value is not None}}
    return data


def provenance(cfg: Config) -> dict[str, Any]:
    """What made a record: config, its hash, versions."""
    from . import __version__

    return {
        "config": cfg.model_dump_json(),
        "config_hash": cfg.hash,
        "version": __version__,
        "format": FORMAT,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def config_of(run: xr.Dataset) -> Config:
    """The configuration that made a trajectory."""
    return Config(**json.loads(run.attrs["config"]))


def with_weights(
    run: xr.Dataset, initial: Params, final: Params | None, snapshots: Mapping[int, Params] | None = None
) -> xr.Dataset:
    """Add a run's weights: `initial_*`, `final_*` (of its last epoch), and `snapshot_*` along `snapshot` (epochs)."""
    run = run.assign_attrs(final_epoch=int(run.epoch[-1]))
    for stage, params in (("initial", initial), ("final", final)):
        for name, value in params.items() if params else ():
            run[f"{stage}_{name}"] = (_WEIGHT_DIMS[name][: value.ndim], value)
    if snapshots:
        run = run.assign_coords(snapshot=sorted(snapshots))
        for name, value in initial.items():
            stacked = np.stack([dict(snapshots[epoch].items())[name] for epoch in sorted(snapshots)])
            run[f"snapshot_{name}"] = (("snapshot", *_WEIGHT_DIMS[name][: value.ndim]), stacked)
    return run


def weights_of(run: xr.Dataset, epoch: int | None = None) -> dict[str, np.ndarray]:
    """Blocks of weights in a record: final ones by default, else those of epoch 0 or of a snapshot."""
    if "seed" in run.dims:
        raise ValueError("these are several seeds; choose one first: Params.of(runs.sel(seed=0))")
    last = run.attrs.get("final_epoch")
    stage = "final" if epoch is None or epoch == last else "initial" if epoch == 0 else "snapshot"
    if stage == "snapshot":
        saved = [int(e) for e in run.snapshot] if "snapshot" in run.coords else []
        if epoch not in saved:
            raise ValueError(f"epoch = {epoch} has no saved weights; allowed: {sorted({0, *saved, *([last] if last else [])})}")
        run = run.sel(snapshot=epoch)
    blocks = {name: run[f"{stage}_{name}"].values for name in _WEIGHT_DIMS if f"{stage}_{name}" in run}
    if not blocks:
        raise ValueError("this trajectory carries no weights (a theory has none)")
    return blocks


def save(run: xr.Dataset, path: str | Path) -> Path:
    """Write a trajectory as one .npz file, atomically, with its dimensions and attributes inside."""
    path = Path(path)
    arrays = {str(name): np.asarray(value.values) for name, value in run.variables.items()}
    dims = {str(name): list(map(str, value.dims)) for name, value in run.variables.items()}
    notes = {str(name): dict(value.attrs) for name, value in run.variables.items() if value.attrs}
    meta = {"dims": dims, "coords": [str(c) for c in run.coords], "attrs": run.attrs, "notes": notes}
    try:
        json.dumps(meta)
    except TypeError as error:
        raise ValueError(f"attributes of the trajectory hold what JSON cannot ({error})") from None
    write_archive(path, "trajectory", arrays, meta)
    return path


def load(path: str | Path, seeds: Iterable[int] | None = None, weights: bool = True) -> xr.Dataset:
    """Load one record, or all seeds of a directory as one Dataset with dimension `seed`.

    Records of different identity (config, engine, tolerances, backend, start) are refused. `attrs["missing"]` lists the seeds
    that are not there: of `seeds`, or else unfinished and failed runs, and gaps in the numbering where it has few; a warning
    says so. `weights=False` leaves weights out.
    """
    path = Path(path)
    if not path.is_dir():
        if seeds is not None:
            raise ValueError(f"seeds belong to a directory of records; {path} is none")
        return _load_file(path, weights)
    wanted = None if seeds is None else sorted({check_seed(seed) for seed in seeds})
    found = {seed: file for seed, file in record_files(path).items() if wanted is None or seed in wanted}
    if not found:
        told = "" if wanted is None else f" of seeds {write_seeds(wanted)}"
        raise FileFault(f"{path} holds no finished records (seed_*.npz){told}")
    records = [_read(file, weights) for file in found.values()]
    for (seed, file), record in zip(found.items(), records, strict=True):
        if record.attrs.get("seed", seed) != seed:
            raise FileFault(f"{file} holds seed {record.attrs['seed']}; give it its own name back")
    _require_one_identity([record.attrs for record in records], list(found.values()))
    missing = sorted((_expected(path, found) if wanted is None else set(wanted)) - set(found))
    if missing:
        warnings.warn(f"{path}: no finished record of seed {write_seeds(missing)}", stacklevel=2)
    data = _stack(records, list(found))
    data.attrs["missing"] = missing
    return data


def _expected(path: Path, found: Iterable[int]) -> set[int]:
    """Seeds that a directory should hold: those that were begun, and all from 0 to the last where seeds are numbered so."""
    begun, last = {*unfinished(path), *failed_files(path)}, max(found)
    return begun | (set(range(last)) if last - len(list(found)) < GAPS else set())


def record_path(directory: str | Path, seed: int) -> Path:
    """Where the record of a seed lies."""
    return Path(directory) / f"seed_{seed}.npz"


def checkpoint_path(directory: str | Path, seed: int) -> Path:
    """Where the checkpoint of a seed's unfinished run lies."""
    return Path(directory) / f"seed_{seed}.checkpoint.npz"


def record_files(directory: Path) -> dict[int, Path]:
    """The finished records of a directory by seed."""
    return _numbered(directory, r"seed_(\d+)\.npz")


def unfinished(directory: Path) -> dict[int, Path]:
    """Checkpoints of a directory by seed."""
    return _numbered(directory, r"seed_(\d+)\.checkpoint\.npz")


def failed_files(directory: Path) -> dict[int, Path]:
    """Why runs failed, or what they recorded before, by seed."""
    return _numbered(directory, r"seed_(\d+)\.failed\.(?:npz|txt)")


def stack(runs: Sequence[xr.Dataset], seeds: Sequence[int]) -> xr.Dataset:
    """Join trajectories of several seeds along `seed`; each must have the others' variables and shapes."""
    return _stack([_Record.of(run) for run in runs], list(seeds))


@dataclass(frozen=True)
class _Record:
    """What a file holds, not yet labelled: a thousand of them are joined faster than as many Datasets."""

    arrays: dict[str, np.ndarray]
    dims: dict[str, Sequence[str]]
    coords: Sequence[str]
    notes: dict[str, dict[str, Any]]
    attrs: dict[str, Any]

    @classmethod
    def of(cls, run: xr.Dataset) -> _Record:
        variables = {str(name): value for name, value in run.variables.items()}
        return cls(
            {name: value.values for name, value in variables.items()},
            {name: [str(dim) for dim in value.dims] for name, value in variables.items()},
            [str(name) for name in run.coords],
            {name: dict(value.attrs) for name, value in variables.items()},
            dict(run.attrs),
        )

    def labelled(self) -> xr.Dataset:
        variables = {name: (self.dims[name], value, self.notes.get(name, {})) for name, value in self.arrays.items()}
        coords = {name: variables.pop(name) for name in self.coords if name in variables}
        return xr.Dataset(variables, coords=coords, attrs=self.attrs)


def _numbered(directory: Path, pattern: str) -> dict[int, Path]:
    """Files by the number in their names, written without leading zeros."""
    matches = ((re.fullmatch(pattern, file.name), file) for file in directory.iterdir())
    return dict(sorted((int(match[1]), file) for match, file in matches if match and match[1] == str(int(match[1]))))


def _load_file(path: Path, weights: bool) -> xr.Dataset:
    record = _read(path, weights, copy=True)
    try:
        data = record.labelled()
        config_of(data)
    except (KeyError, ValueError, TypeError) as error:
        raise FileFault(f"{path} does not hold a trajectory of this format ({error})") from None
    if "epoch" not in data.dims or "A" not in data:
        raise FileFault(f"{path} does not hold a trajectory of this format (no learning curve in it)")
    return data


def _read(path: Path, weights: bool, copy: bool = False) -> _Record:
    arrays, meta = read_archive(path, "trajectory", copy)
    kept = {n: v for n, v in arrays.items() if weights or not n.startswith(("initial_", "final_", "snapshot"))}
    try:
        return _Record(kept, meta["dims"], meta["coords"], meta["notes"], meta["attrs"])
    except (KeyError, TypeError) as error:
        raise FileFault(f"{path} does not hold a trajectory of this format ({error})") from None


def _require_one_identity(attrs: list[dict[str, Any]], files: list[Path]) -> None:
    first = {key: attrs[0].get(key) for key in IDENTITY}
    for each, file in zip(attrs, files, strict=True):
        other = {key: (first[key], each.get(key)) for key in IDENTITY if each.get(key) != first[key]}
        if each.get("config") != attrs[0].get("config"):  # as text: a thousand of them are compared at once
            mine, theirs = (Config(**json.loads(a["config"])) for a in (attrs[0], each))
            other = {**mine.difference(theirs), **other}
        if other:
            told = ", ".join(f"{key} = {a!r} and {b!r}" for key, (a, b) in other.items())
            raise FileFault(
                f"{file.parent} mixes records that do not belong together: {files[0].name} and {file.name} have {told}"
            )


def _stack(records: list[_Record], seeds: list[int]) -> xr.Dataset:
    """Join records along `seed`; much faster than a general concatenation, as all share one schema."""
    first = records[0]
    shapes = {name: value.shape for name, value in first.arrays.items()}
    for record in records[1:]:
        other = {name: value.shape for name, value in record.arrays.items()}
        if other != shapes:
            told = ", ".join(sorted(name for name in other.keys() | shapes if other.get(name) != shapes.get(name))[:3])
            raise FileFault(f"these records hold different variables ({told}): were some saved with other snapshots?")
    shared = first.labelled()
    variables = {
        name: (("seed", *value.dims), np.stack([record.arrays[str(name)] for record in records]), value.attrs)
        for name, value in shared.data_vars.items()
    }
    attrs = {key: value for key, value in first.attrs.items() if all(record.attrs.get(key) == value for record in records)}
    for name in ("wall_seconds", "gradients"):
        if all(name in record.attrs for record in records):
            variables[name] = (("seed",), np.array([record.attrs[name] for record in records]), {})
            attrs.pop(name, None)
    return xr.Dataset(variables, coords={**shared.coords, "seed": seeds}, attrs={**attrs, "seeds": len(seeds)})
