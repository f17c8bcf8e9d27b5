"""Curves and snapshots as a run collects them, and what of them a checkpoint holds."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ..config import Config
from ..gradients.backends import Backend
from ..observables import observe
from ..params import Params
from ..task import Task
from .descent import diverged


class Recorder:
    """Evaluates weights at the epochs that are asked for, and keeps the results."""

    def __init__(self, cfg: Config, task: Task, backend: Backend, save_params: Iterable[int] = ()) -> None:
        self.cfg, self.task, self.backend = cfg, task, backend
        self.snapshot_epochs = sorted(set(save_params))
        self.epochs: list[int] = []
        self.rows: list[dict[str, np.ndarray]] = []
        self.snapshots: dict[int, Params] = {}
        self.latest: Params | None = None
        """Weights of the last of `epochs`."""
        self._evaluate_at = set(cfg.eval_epochs)

    @property
    def stops(self) -> list[int]:
        """Epochs at which weights are wanted, in order."""
        return sorted(self._evaluate_at | set(self.snapshot_epochs))

    def record(self, epoch: int, params: Params, train_loss: float | None) -> None:
        """Evaluate or keep the weights of one of the `stops`; `Diverged` where these, or their losses, are not finite."""
        last_loss = float(self.rows[-1]["loss"][0]) if self.rows else math.nan
        if not all(np.isfinite(value).all() for _, value in params.items()):
            raise diverged(self.cfg, epoch, last_loss)
        if epoch in self._evaluate_at:
            with np.errstate(over="ignore", invalid="ignore"):
                row = observe(self.cfg, self.task, params, self.backend, train_loss)
            if not np.isfinite(row["loss"]).all():
                raise diverged(self.cfg, epoch, last_loss)
            self.rows.append(row)
            self.epochs.append(epoch)
            self.latest = params
        if epoch in self.snapshot_epochs:
            self.snapshots[epoch] = params

    def curves(self) -> dict[str, np.ndarray]:
        """Recorded observables, stacked along epochs."""
        return {name: np.stack([row[name] for row in self.rows]) for name in self.rows[0]} if self.rows else {}

    def state(self) -> dict[str, np.ndarray]:
        """Everything recorded so far, as arrays."""
        arrays = {f"curve_{name}": values for name, values in self.curves().items()}
        arrays["curve_epochs"] = np.array(self.epochs, dtype=np.int64)
        for epoch, params in self.snapshots.items():
            arrays |= {f"snapshot_{epoch}_{name}": value for name, value in params.items()}
        return arrays | {f"latest_{name}": value for name, value in (self.latest.items() if self.latest else ())}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take up what a checkpoint held."""
        self.epochs = [int(epoch) for epoch in arrays["curve_epochs"]]
        names = [key.removeprefix("curve_") for key in arrays if key.startswith("curve_") and key != "curve_epochs"]
        self.rows = [{name: arrays[f"curve_{name}"][i] for name in names} for i in range(len(self.epochs))]
        found = {epoch: _weights(arrays, f"snapshot_{epoch}_") for epoch in self.snapshot_epochs}
        self.snapshots = {epoch: params for epoch, params in found.items() if params}
        self.latest = _weights(arrays, "latest_")


def _weights(arrays: dict[str, np.ndarray], prefix: str) -> Params | None:
    """The blocks of weights under a prefix, if there are any."""
    blocks = {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
    return Params(**blocks) if blocks else None
