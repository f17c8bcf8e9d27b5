"""Where a configuration enters the theory and a labelled trajectory leaves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ..config import Config
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


def labelled(cfg: Config, tier: str, curves: Mapping[str, Any], **attrs: Any) -> xr.Dataset:
    """A tier's curves as a trajectory, marked as theory."""
    curves = {name: np.asarray(values) for name, values in curves.items()}
    return trajectory(cfg, cfg.eval_epochs, curves, kind="theory", engine=f"theory-{tier}", **attrs)


def for_each_seed(
    solve: Callable[[int], xr.Dataset], seed: Seeds, draws: int, rng: np.random.Generator | None, params: Params | None
) -> xr.Dataset:
    """One trajectory for one seed; several along `seed` for a list of seeds or, with seed=None, for seeds drawn at random.

    Drawn seeds lie above 2^31, away from those that people count from 0, and each can be solved again by its number.
    """
    if seed is not None and not isinstance(seed, Sequence | np.ndarray):
        return solve(check_seed(seed))
    if params is not None:
        raise ValueError("params belongs to the permutations of one seed; give seed = a whole number with it")
    if seed is None:
        if draws < 1:
            raise ValueError(f"draws = {draws} is not allowed; allowed: 1 or more")
        rng = np.random.default_rng(0) if rng is None else rng
        seed = [int(drawn) for drawn in rng.integers(2**31, 2**32, draws)]
    runs = [solve(check_seed(one)) for one in seed]
    if not runs:
        raise ValueError("seed = [] holds no seeds; allowed: a whole number, a list of them, or None")
    wall = sum(run.attrs.pop("wall_seconds", 0.0) for run in runs)
    for run in runs:
        run.attrs.pop("seed", None)
    joined = xr.concat(runs, dim="seed", combine_attrs="drop_conflicts", join="exact")
    return joined.assign_coords(seed=list(map(int, seed))).assign_attrs(seeds=len(runs), wall_seconds=wall)
