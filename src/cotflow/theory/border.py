"""Where a configuration enters the theory and a labelled trajectory leaves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ..config import Config, require_config
from ..params import Params, require_vector_keys
from ..task import check_seed
from ..trajectory import trajectory

Array = NDArray[np.float64]
Seeds = int | Sequence[int] | None


def refuse(cfg: Config, tier: str, *, weight_decay: bool = False, one_step: bool = True) -> None:
    """Raise ValueError, in one sentence, for what a tier cannot represent.

    `weight_decay` and `one_step` (L = 1) say what the tier can.

    >>> refuse(Config(optimizer="adamw"), "closure")
    Traceback (most recent call last):
    ...
    ValueError: optimizer = 'adamw' cannot be represented by theory tier 'closure'; allowed: 'sgd'
    """
    require_config(cfg)
    name = f"theory tier {tier!r}"
    require_vector_keys(cfg, name)
    if cfg.optimizer != "sgd":
        raise ValueError(f"optimizer = {cfg.optimizer!r} cannot be represented by {name}; allowed: 'sgd'")
    if not cfg.full_batch:
        raise ValueError(
            f"batch_size = {cfg.batch_size} cannot be represented by {name}, which knows no minibatch noise; "
            f"allowed: n_train_seq = {cfg.n_train_seq}"
        )
    if cfg.weight_decay and not weight_decay:
        raise ValueError(f"weight_decay = {cfg.weight_decay} cannot be represented by {name}; allowed: 0")
    if cfg.L == 1 and not one_step:
        raise ValueError(f"L = 1 cannot be represented by {name}: attention has no choice to learn; allowed: 2 or more")


def alphas(cfg: Config) -> Array:
    """Training times of the evaluations, alpha = epoch / (d_g N).

    >>> alphas(Config.preset("main"))[[0, 1, -1]]
    array([ 0.        ,  0.04882812, 19.53125   ])
    """
    return np.asarray(cfg.eval_epochs) * cfg.alpha_per_epoch


def number(name: str, value: Any, least: float = -np.inf, below: float = np.inf) -> float:
    """An option that is one finite number, from `least` up and below `below`.

    >>> number("tau", 5, 0, 1)
    Traceback (most recent call last):
    ...
    ValueError: tau = 5 is not allowed; allowed: a number with 0 <= tau < 1
    """
    given = np.asarray(value)
    if given.shape or given.dtype.kind not in "fiu" or not np.isfinite(given) or not least <= given < below:
        bounds = f"a number with {least:g} <= {name} < {below:g}" if np.isfinite(least) else "a finite number"
        raise ValueError(f"{name} = {value!r} is not allowed; allowed: {bounds}")
    return float(given)


def whole_number(name: str, value: Any, least: int) -> int:
    """An option that is one whole number, from `least` up.

    >>> whole_number("draws", 2.5, 1)
    Traceback (most recent call last):
    ...
    ValueError: draws = 2.5 is not allowed; allowed: a whole number, 1 or more
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} = {value!r} is not allowed; allowed: a whole number, {least} or more")
    return int(value)


def weights_for(cfg: Config, params: Any) -> Params:
    """Weights handed in, where they fit the configuration and are finite."""
    if not isinstance(params, Params):
        raise ValueError(f"params is of type {type(params).__name__}; allowed: Params, which cf.Params.of(run) makes of a record")
    for name, value in params.items():
        if not np.isfinite(value).all():
            raise ValueError(f"params.{name} holds values that are not finite; allowed: finite weights")
    return params.check(cfg)


def labelled(cfg: Config, tier: str, curves: Mapping[str, Any], **attrs: Any) -> xr.Dataset:
    """A tier's curves as a trajectory, marked as theory.

    >>> cfg = Config.preset("smoke")
    >>> labelled(cfg, "closure", {"A": np.zeros(len(alphas(cfg)))}).attrs["engine"]
    'theory-closure'
    """
    curves = {name: np.asarray(values) for name, values in curves.items()}
    return trajectory(cfg, cfg.eval_epochs, curves, kind="theory", engine=f"theory-{tier}", **attrs)


def for_each_seed(
    solve: Callable[[int], xr.Dataset], seed: Seeds, draws: int, rng: np.random.Generator | None, params: Params | None
) -> xr.Dataset:
    """One trajectory for one seed; several along `seed` for a list of seeds or, with seed=None, for seeds drawn at random.

    Drawn seeds lie above 2^31, away from those that people count from 0, and each can be solved again by its number.

    >>> cfg = Config.preset("smoke")
    >>> flat = lambda seed: labelled(cfg, "closure", {"A": np.full(len(alphas(cfg)), float(seed))})
    >>> for_each_seed(flat, [3, 5], draws=1, rng=None, params=None).A[:, 0].values
    array([3., 5.])
    """
    draws = whole_number("draws", draws, 1)
    rng = np.random.default_rng(0) if rng is None else rng
    if not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng = {rng!r} is not allowed; allowed: a NumPy Generator, as numpy.random.default_rng(0) makes")
    if seed is not None and np.ndim(seed) == 0:
        return solve(check_seed(seed))  # type: ignore[arg-type]
    if params is not None:
        raise ValueError("params belongs to the permutations of one seed; give seed = a whole number with it")
    seeds = _drawn(draws, rng) if seed is None else [check_seed(one) for one in np.asarray(seed).tolist()]
    if not seeds or len(set(seeds)) < len(seeds):
        what = "one seed twice" if seeds else "no seeds"
        raise ValueError(f"seed = {seeds} holds {what}; allowed: a whole number, a list of different ones, or None")
    runs = [solve(one) for one in seeds]
    wall = sum(run.attrs.pop("wall_seconds", 0.0) for run in runs)
    for run in runs:
        run.attrs.pop("seed", None)
    joined = xr.concat(runs, dim="seed", combine_attrs="drop_conflicts", join="exact")
    return joined.assign_coords(seed=seeds).assign_attrs(seeds=len(runs), wall_seconds=wall)


def _drawn(draws: int, rng: np.random.Generator) -> list[int]:
    """So many different seeds, in the order in which they were drawn."""
    found: dict[int, None] = {}
    while len(found) < draws:
        found |= dict.fromkeys(rng.integers(2**31, 2**32, draws - len(found)).tolist())
    return list(found)
