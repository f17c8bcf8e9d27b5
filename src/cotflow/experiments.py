"""What a reproduction trains: the paper's two tables, and the runs that its figures beyond the paper need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from .config import Config
from .engines import refuse
from .files import Damaged
from .runs import same_run
from .trajectory import load, record_files
from .vocabulary import GROUPS

#: Seeds of the variations; each is a point of a curve, not an ensemble to be compared in detail.
SWEEP_SEEDS, SIZE_SEEDS = 4, 2
#: Seeds of tiers that are drawn for these few alone, beside the runs of other training-set sizes.
FEW = {"quenched-population": SIZE_SEEDS, "column-population": SIZE_SEEDS}


@dataclass(frozen=True)
class Experiment:
    """The same seeds of one configuration, or of several by name; records lie under `name`. `why` is for who waits for it.

    `left_out` holds points that are no possible configuration, with the reason.
    """

    name: str
    points: Mapping[str, Config]
    seeds: tuple[int, ...]
    why: str
    engine: str = "leap"
    backend: str = "fused"
    left_out: Mapping[str, str] = field(default_factory=dict)

    def missing(self, out: Path) -> dict[str, list[int]]:
        """Seeds that have no record yet, by point; records of other runs are refused, with the difference."""
        found = {}
        for point, cfg in self.points.items():
            there = self.found(out / self.name / point, cfg)
            found[point] = [seed for seed in self.seeds if seed not in there]
        return found

    def found(self, place: Path, cfg: Config) -> set[int]:
        """Seeds in a directory whose records are whole, all of them of this configuration, engine and backend."""
        there = set()
        for seed, file in record_files(place).items() if place.is_dir() else ():
            try:
                same_run(load(file, weights=False), file, cfg, seed, {"engine": self.engine, "backend": self.backend})
            except Damaged:  # training sets it aside, and says so
                continue
            there.add(seed)
        return there


def experiments(
    main: Config, seeds: Sequence[int], everything: bool = False, robustness: Config | None = None
) -> list[Experiment]:
    """All experiments of a reproduction of `main`; `everything` adds the second table, the variations and the exact run."""
    seeds = tuple(seeds)
    plan = [Experiment("main", {"": main}, seeds, "the main table", *means(main))]
    if not everything:
        return plan
    if robustness is not None:
        plan.append(Experiment("robustness", {"": robustness}, seeds, "the second table", *means(robustness)))
    for name, changes, few, why in (
        ("sizes", sizes(main), SIZE_SEEDS, "smaller and larger training sets"),
        ("sweep", variations(main), SWEEP_SEEDS, "variations of the hyperparameters"),
    ):
        points, left_out = possible(main, changes)
        plan.append(Experiment(name, points, seeds[:few], why, *means(main), left_out))
    if plan[0].engine != "steps":
        plan.append(Experiment("exact", {"": main}, seeds[:1], "every SGD step of one seed", "steps"))
    return plan


def means(cfg: Config) -> tuple[str, str]:
    """The fastest engine and backend that can represent a configuration."""
    for engine, backend in (("leap", "fused"), ("steps", "fused")):
        try:
            refuse(cfg, engine, backend)
        except ValueError:
            continue
        return engine, backend
    return "steps", "torch"


def sizes(main: Config) -> list[dict[str, Any]]:
    """Training sets an eighth and eight times the size."""
    return [{"n_train_seq": main.n_train_seq // 8}, {"n_train_seq": 8 * main.n_train_seq}]


def variations(main: Config) -> list[dict[str, Any]]:
    """Changes of one hyperparameter each; d_g follows N, by itself where the vocabulary is a group."""
    N = [max(4, main.N // 2), max(4, 3 * main.N // 4)]
    return [
        {"L": max(2, main.L // 2)},
        {"L": 2 * main.L},
        *({"N": n} if main.vocabulary in GROUPS else {"N": n, "d_g": n} for n in N),
        {"d_h": max(4, main.d_h // 4 // 2 * 2)},
        {"lr": main.lr / 2},
        {"lr": 2 * main.lr},
    ]


def possible(main: Config, changes: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Config], dict[str, str]]:
    """`main` with each change, over the same training time alpha, by name; and the impossible changes, with the reason."""
    found, left_out = {}, {}
    for change in changes:
        name = ",".join(f"{key}={value:g}" for key, value in change.items())
        try:
            cfg = main.replace(**change)
        except ValueError as reason:
            left_out[name] = str(reason)
            continue
        if cfg != main:
            epochs = max(1, round(main.train_epochs * main.alpha_per_epoch / cfg.alpha_per_epoch))
            every = max(1, round(main.eval_every * epochs / max(main.train_epochs, 1)))
            same_time = cfg.alpha_per_epoch == main.alpha_per_epoch
            found[name] = cfg if same_time else cfg.replace(train_epochs=epochs, eval_every=min(every, epochs))
    return found, left_out


def snapshot_epochs(run: xr.Dataset) -> list[int]:
    """Evaluations at which to look at a run's weights: attention locking in, the rollout transition, half of what is left."""
    accuracy = run.rollout_accuracy.sel(split="train")
    last = run.sizes["epoch"] - 1
    moments = [
        _first(run.A.values >= 0.25, last),
        _first(run.A.values >= 0.75, last),
        _first(accuracy.values >= 0.5, last),
    ]
    moments.append((max(moments) + last) // 2)
    found = {k for k in moments if 0 < k < last}
    if len(found) < 2:  # nothing of this happens: quarters of the run
        found = {k for k in (last // 4, last // 2, 3 * last // 4) if 0 < k < last}
    return sorted(int(run.epoch[k]) for k in found)


def _first(reached: np.ndarray, otherwise: int) -> int:
    return int(reached.argmax()) if reached.any() else otherwise
