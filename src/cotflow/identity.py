"""Which runs belong together: all that makes a run but for its seed, as a call asks for it and as a file tells it.

An identity is the configuration's fields, engine, backend, tolerances, format, the weights to start from ("initial" are the
seed's own), and the epochs whose weights are saved. A directory is for runs of one identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray as xr

from .config import Config
from .engines import ENGINES, engine_name, tolerances
from .files import FORMAT, FileFault, read_archive
from .gradients import BACKENDS
from .trajectory import config_of, load

_NAMED = ("engine", "backend", "rtol", "atol", "format")
_OWN, _GIVEN = "initial", "given weights"


def asked(cfg: Config, options: Mapping[str, Any], started: bool = False) -> dict[str, Any]:
    """The identity of what `simulate` makes with these options; `started` where its first weights are given."""
    engine, backend = options.get("engine") or ENGINES[0], options.get("backend") or BACKENDS[0]
    return {
        **cfg.model_dump(),
        "engine": engine_name(engine),
        "backend": getattr(backend, "name", backend),
        **tolerances(engine, options),
        "format": FORMAT,
        "start": _GIVEN if started else _OWN,
        "save_params": sorted(set(options.get("save_params") or ())),
    }


def of_record(run: xr.Dataset) -> dict[str, Any]:
    """The identity of a record."""
    named = {key: run.attrs[key] for key in _NAMED if key in run.attrs}
    snapshots = [int(epoch) for epoch in run.coords.get("snapshot", ())]
    return {**config_of(run).model_dump(), **named, "start": run.attrs.get("started_from", _OWN), "save_params": snapshots}


def of_checkpoint(origin: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of the run that a checkpoint belongs to."""
    cfg = Config(**{key: origin[key] for key in Config.model_fields if key in origin})
    named = {key: origin[key] for key in _NAMED if key in origin}
    return {**cfg.model_dump(), **named, "start": origin["started_from"], "save_params": list(origin["snapshots"])}


def read_identity(file: Path) -> dict[str, Any]:
    """The identity of the run in a record or a checkpoint, which is read as a whole: a damaged one is refused."""
    if not file.name.endswith(".checkpoint.npz"):
        return of_record(load(file))
    _, meta = read_archive(file, "checkpoint", copy=False)
    try:
        return of_checkpoint(meta["origin"])
    except (KeyError, ValueError) as error:
        raise FileFault(f"{file} is no checkpoint of this version ({error}); move it away or use another directory") from None


def start_of_checkpoint(file: Path) -> str:
    """The fingerprint of the weights from which the run in a checkpoint started."""
    return read_archive(file, "checkpoint", copy=False)[1]["origin"]["start"]


def difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """In what two identities differ; tolerances of different engines are not compared."""
    keys = [key for key in {**wanted, **found} if key not in ("rtol", "atol") or found.get("engine") == wanted.get("engine")]
    return {key: (found.get(key), wanted.get(key)) for key in keys if found.get(key) != wanted.get(key)}


def in_words(differences: Mapping[str, tuple[Any, Any]]) -> str:
    """Differences as a refusal tells them: "lr = 0.5, now 0.25"."""
    return ", ".join(f"{key} = {old!r}, now {new!r}" for key, (old, new) in differences.items())
