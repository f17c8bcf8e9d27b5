"""Many seeds and many configurations, on the cores of this machine or on a cluster, surviving whatever befalls them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import xarray as xr

from ..config import Config
from ..engines.engine import Engine
from ..errors import EnsembleFailed, Failure
from ..failures import by_cause, who
from ..gradients import Backend
from ..task import check_seed
from ..trajectory import load, provenance, stack
from .grid import check_name, point_names
from .jobs import Held
from .options import check_options
from .train import Records, train_points

__all__ = ["ensemble"]


@overload
def ensemble(configs: Config, seeds: Iterable[int], **options: Any) -> xr.Dataset: ...
@overload
def ensemble(configs: Mapping[str, Config], seeds: Iterable[int], **options: Any) -> dict[str, xr.Dataset]: ...
@overload
def ensemble(configs: Iterable[Config], seeds: Iterable[int], **options: Any) -> list[xr.Dataset]: ...
def ensemble(
    configs: Config | Iterable[Config] | Mapping[str, Config],
    seeds: Iterable[int],
    engine: str | Callable[..., Engine] = "leap",
    executor: Any = None,
    out: str | Path | None = None,
    *,
    backend: str | Backend = "fused",
    workers: int | None = None,
    shared: bool | None = None,
    keep_going: bool = False,
    progress: bool | None = None,
    **options: Any,
) -> xr.Dataset | list[xr.Dataset] | dict[str, xr.Dataset]:
    """Train every seed of one or more configurations: a Dataset along `seed` for one, a list or dict of them for a list or dict.

    Records have the same bits whatever the executor, the number of workers and the order in which they finish.

    Parameters
    ----------
    engine, backend
        As for `simulate`.
    executor
        Anything with the interface of `concurrent.futures`, or a Dask client; by default `workers` processes of this machine
        (as many as cores), each with one thread. A process that is killed is replaced and its seed runs again.
    out
        Directory of the records. Finished seeds in it are not run again, half-finished ones go on from their checkpoints; without
        it nothing is kept. One configuration has its records in `out` itself, several have a directory each.
    shared
        Whether the workers see `out` too, and so can write checkpoints and records there. Assumed of this machine's processes and
        threads; all others send their runs back, and the caller writes them.
    keep_going
        Where runs fail the others are finished and then `EnsembleFailed` is raised, which carries them as `results`; True returns
        them instead, with the failed seeds in `attrs["missing"]`.
    progress
        True: a bar on a terminal, lines in a log; None: a bar on a terminal or nothing; False: nothing.
    options
        For `simulate`: rtol, atol, max_gradients, save_params, checkpoint_every, threads, device.

    Examples
    --------
    >>> import cotflow as cf
    >>> cfg = cf.Config(N=4, L=2, d_g=3, d_h=4, n_train_seq=32, n_test_seq=8, train_epochs=20, eval_every=10)
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> runs = cf.ensemble(cfg, range(2), engine="steps", executor=ThreadPoolExecutor(1))
    >>> dict(runs.A.sizes)
    {'seed': 2, 'epoch': 3}
    """
    points = _named(configs)
    if not isinstance(seeds, Iterable) or isinstance(seeds, str):
        raise ValueError(f"seeds = {seeds!r} is not allowed; allowed: a list of whole numbers from 0, or range(100)")
    wanted = sorted({check_seed(seed) for seed in seeds})
    if not wanted:
        raise ValueError("seeds is empty; allowed: whole numbers from 0, such as range(100)")
    options = check_options({"engine": engine, "backend": backend, **options})
    place = None if out is None else Path(out)
    records = train_points(points, wanted, options, executor, place, workers=workers, shared=shared, progress=progress)
    results = {name: _collect(name, cfg, place, wanted, records) for name, cfg in points.items()}
    answer = _as_given(configs, results)
    if records.failures and not keep_going:
        raise EnsembleFailed(told(records.failures, len(points) * len(wanted)), records.failures, answer)
    return answer


def told(failures: Sequence[Failure], total: int) -> str:
    """Failures in a sentence: how many of how many, those of one cause together, and what another process has in its hands."""
    held = [failure for failure in failures if isinstance(failure, Held)]
    parts = [f"{runs}: {cause}" for runs, cause in by_cause([failure for failure in failures if failure not in held])]
    more = f"; and {len(parts) - 3} other causes" if len(parts) > 3 else ""
    sentences = [f"{len(failures) - len(held)} of {total} runs failed: {'; '.join(parts[:3])}{more}"] if parts else []
    if held:
        sentences.append(
            f"{len(held)} of {total} runs are in the hands of another process ({who(held)}); the same command completes them"
        )
    return "; ".join(sentences)


def _named(configs: Config | Iterable[Config] | Mapping[str, Config]) -> dict[str, Config]:
    if isinstance(configs, Config):
        return {"": configs}
    if isinstance(configs, Mapping):
        named = {check_name(name): cfg for name, cfg in configs.items()}
        listed = list(named.values())
    else:
        named, listed = None, list(configs) if isinstance(configs, Iterable) and not isinstance(configs, str) else [configs]
    for cfg in listed:
        if not isinstance(cfg, Config):
            raise ValueError(f"configs holds {cfg!r}; allowed: a Config, or a list or a dict of them")
    if not listed:
        raise ValueError("configs is empty; allowed: one Config or more")
    return dict(zip(point_names(listed), listed, strict=True)) if named is None else named


def _collect(name: str, cfg: Config, out: Path | None, seeds: list[int], records: Records) -> xr.Dataset:
    """The runs of a point along `seed`; where none came to its end, a Dataset that knows its configuration alone."""
    done = [seed for seed in seeds if (name, seed) in records.done]
    missing = [seed for seed in seeds if seed not in done]
    if not done:
        return xr.Dataset(attrs={**provenance(cfg), "missing": missing})
    if out is not None:
        runs = load(out / name, done)
    else:
        runs = stack([records.runs[name, seed] for seed in done], done)
    runs.attrs["missing"] = missing
    return runs


def _as_given(configs: Any, results: dict[str, xr.Dataset]) -> Any:
    if isinstance(configs, Config):
        return results[""]
    return results if isinstance(configs, Mapping) else list(results.values())
