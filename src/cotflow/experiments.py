"""What a reproduction trains: the paper's two tables, and the runs that its figures beyond the paper need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from .config import Config
from .trajectory import record_files

#: Seeds of the variations; each is a point of a curve, not an ensemble to be compared in detail.
SWEEP_SEEDS, SIZE_SEEDS = 4, 2


@dataclass(frozen=True)
class Experiment:
    """The same seeds of one configuration, or of several by name; records lie under `name`. `why` is for who waits for it."""

    name: str
    points: Mapping[str, Config]
    seeds: tuple[int, ...]
    why: str
    engine: str = "leap"

    def missing(self, out: Path) -> dict[str, list[int]]:
        """Seeds that have no record yet, by point."""
        places = {point: out / self.name / point for point in self.points}
        there = {point: record_files(place) if place.is_dir() else {} for point, place in places.items()}
        return {point: [seed for seed in self.seeds if seed not in found] for point, found in there.items()}


def experiments(
    main: Config, seeds: Sequence[int], everything: bool = False, robustness: Config | None = None
) -> list[Experiment]:
    """All experiments of a reproduction of `main`; `everything` adds the second table, the variations and the exact run."""
    seeds = tuple(seeds)
    plan = [Experiment("main", {"": main}, seeds, "the main table")]
    if not everything:
        return plan
    if robustness is not None:
        plan.append(Experiment("robustness", {"": robustness}, seeds, "the second table"))
    sizes = {f"n_train_seq={size}": main.replace(n_train_seq=size) for size in (main.n_train_seq // 8, 8 * main.n_train_seq)}
    return [
        *plan,
        Experiment("sizes", sizes, seeds[:SIZE_SEEDS], "smaller and larger training sets"),
        Experiment("sweep", variations(main), seeds[:SWEEP_SEEDS], "variations of the hyperparameters"),
        Experiment("exact", {"": main}, seeds[:1], "every SGD step of one seed", engine="steps"),
    ]


def variations(main: Config) -> dict[str, Config]:
    """The main configuration with one hyperparameter changed, over the same training time alpha."""
    small = max(4, main.N // 2)
    changes = [
        {"L": max(2, main.L // 2)},
        {"L": 2 * main.L},
        {"N": small, "d_g": small},
        {"N": max(4, 3 * main.N // 4), "d_g": max(4, 3 * main.N // 4)},
        {"d_h": max(4, main.d_h // 4)},
        {"lr": main.lr / 2},
        {"lr": 2 * main.lr},
    ]
    found = {}
    for change in changes:
        cfg = main.replace(**change)
        epochs = max(1, round(main.train_epochs * main.alpha_per_epoch / cfg.alpha_per_epoch))
        every = max(1, round(main.eval_every * epochs / max(main.train_epochs, 1)))
        name = ",".join(f"{field}={value:g}" for field, value in change.items())
        found[name] = cfg.replace(train_epochs=epochs, eval_every=min(every, epochs))
    return found


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
