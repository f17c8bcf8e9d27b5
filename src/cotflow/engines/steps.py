"""Every optimiser step: full-batch SGD, minibatch SGD and AdamW, as PyTorch takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..config import Config
from ..gradients.backends import Backend
from ..params import Params
from ..task import Split, Task
from .descent import Descent, frozen_blocks
from .engine import State


class Steps:
    """One epoch an `advance`: one step where training is full batch, one a minibatch otherwise.

    Minibatches of epoch e are drawn without replacement by `default_rng([seed, 3, e])`; the last one holds what remains.
    Arithmetic is in the weights' own precision, as PyTorch's is.
    """

    def __init__(self, cfg: Config, task: Task, params: Params, backend: Backend) -> None:
        self.cfg, self.task = cfg, task
        self.params = params
        self.epoch = 0
        self.descent = Descent(cfg, backend)
        self.optimizer = AdamW(cfg, params) if cfg.optimizer == "adamw" else SGD(cfg)
        self._ahead: tuple[float, Params] | None = None

    @property
    def gradients(self) -> int:
        return self.descent.evaluations - (self._ahead is not None)

    def advance(self) -> None:
        if self.cfg.full_batch:
            _, direction = self._full_gradient()
            self._ahead = None
            self._step(direction)
        else:
            for batch in self._batches():
                self._step(self.descent(self.params, batch, self.epoch)[1])
        self.epoch += 1

    def at(self, epoch: int) -> tuple[Params, float | None]:
        if epoch != self.epoch:
            raise ValueError(f"engine 'steps' stands at epoch {self.epoch}, not {epoch}")
        known = self.cfg.full_batch and epoch < self.cfg.train_epochs
        return self.params, self._full_gradient()[0] if known else None

    def state(self) -> State:
        arrays = {f"params_{name}": value for name, value in self.params.items()}
        arrays |= self.optimizer.state()
        return arrays, {"epoch": self.epoch, "gradients": self.gradients, "last_loss": self.descent.last_loss}

    def restore(self, state: State) -> None:
        arrays, meta = state
        self.params = Params(**{name: arrays[f"params_{name}"] for name, _ in self.params.items()})
        self.optimizer.restore(arrays)
        self.epoch = int(meta["epoch"])
        self.descent.evaluations = int(meta["gradients"])
        self.descent.last_loss = float(meta["last_loss"])
        self._ahead = None

    def report(self) -> dict[str, Any]:
        return {"steps": self.epoch}

    def _step(self, direction: Params) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # the next gradient says that it did
            self.params = self.optimizer.step(self.params, direction)

    def _full_gradient(self) -> tuple[float, Params]:
        if self._ahead is None:
            self._ahead = self.descent(self.params, self.task.train, self.epoch)
        return self._ahead

    def _batches(self) -> Iterator[Split]:
        order = np.random.default_rng([self.task.seed, 3, self.epoch]).permutation(len(self.task.train))
        for start in range(0, len(order), self.cfg.batch_size):
            yield self.task.train.take(order[start : start + self.cfg.batch_size])


class SGD:
    """w <- w + lr f(w), with f holding the weight decay."""

    def __init__(self, cfg: Config) -> None:
        self.lr = cfg.lr

    def step(self, params: Params, direction: Params) -> Params:
        """The weights after one step."""
        blocks = dict(direction.items())
        return Params(**{name: value + value.dtype.type(self.lr) * blocks[name] for name, value in params.items()})

    def state(self) -> dict[str, np.ndarray]:
        """Nothing: plain SGD has no memory."""
        return {}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Nothing to take up."""


class AdamW:
    """Adam with decoupled weight decay, PyTorch's defaults: betas (0.9, 0.999), eps 1e-8."""

    betas = (0.9, 0.999)
    eps = 1e-8

    def __init__(self, cfg: Config, params: Params) -> None:
        self.lr, self.decay = cfg.lr, cfg.weight_decay
        self.frozen = frozen_blocks(cfg)
        self.count = 0
        self.first = {name: np.zeros_like(value) for name, value in params.items()}
        self.second = {name: np.zeros_like(value) for name, value in params.items()}

    def step(self, params: Params, direction: Params) -> Params:
        """The weights after one step; frozen blocks feel no decay either."""
        self.count += 1
        b1, b2 = self.betas
        blocks, moved = dict(direction.items()), {}
        for name, value in params.items():
            if name in self.frozen:
                moved[name] = value
                continue
            real, gradient = value.dtype.type, -blocks[name]
            self.first[name] = real(b1) * self.first[name] + real(1 - b1) * gradient
            self.second[name] = real(b2) * self.second[name] + real(1 - b2) * gradient * gradient
            scale = np.sqrt(self.second[name]) / real(np.sqrt(1 - b2**self.count)) + real(self.eps)
            decayed = value * real(1 - self.lr * self.decay)
            moved[name] = decayed - real(self.lr / (1 - b1**self.count)) * self.first[name] / scale
        return Params(**moved)

    def state(self) -> dict[str, np.ndarray]:
        """Step count and both moments."""
        moments = {f"first_{k}": v for k, v in self.first.items()} | {f"second_{k}": v for k, v in self.second.items()}
        return {"adam_count": np.array(self.count), **moments}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take up count and moments."""
        self.count = int(arrays["adam_count"])
        self.first = {name: arrays[f"first_{name}"] for name in self.first}
        self.second = {name: arrays[f"second_{name}"] for name in self.second}
