"""Full-batch SGD, step for step the same curves, from about a hundred gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..config import Config
from ..gradients.backends import Backend, tells_pi
from ..params import Params, require_vector_keys
from ..task import Task
from .adams import Adams
from .closed_attention import ClosedAttention
from .descent import Descent, frozen_blocks
from .engine import State
from .laws import Law, Plain
from .quadrature import SUM, Rule


class Leap:
    """Weights of exact full-batch SGD at any epoch, by the summation Adams method of `adams` under the law `closed_attention`.

    `rtol` and `atol` bound the error that one step may make in each block of weights (root mean square, relative to
    atol + rtol |weight|); what errors grow to over a run is the dynamics' affair: to one to three tolerances in A, in the paper's
    tables. Weights are accumulated in float64 whatever the precision of the gradient.
    """

    name = "leap"
    rule: Rule = SUM
    method = Adams

    def __init__(
        self,
        cfg: Config,
        task: Task,
        params: Params,
        backend: Backend,
        rtol: float = 1e-5,
        atol: float = 1e-5,
        max_gradients: int = 2000,
    ) -> None:
        refuse(cfg, self.name)
        self.task, self.descent = task, Descent(cfg, backend)
        self.like = params
        self.adams = self.method(
            self._law(cfg, rtol, atol),
            params.flatten(),
            cfg.train_epochs,
            list(block_slices(params)),
            rtol,
            atol,
            max_gradients=max_gradients,
        )

    @property
    def epoch(self) -> int:
        return int(self.adams.epoch)

    @property
    def params(self) -> Params:
        return self.like.unflatten(self.adams.x)

    @property
    def gradients(self) -> int:
        return self.adams.gradients

    def advance(self) -> None:
        self.adams.advance()

    def at(self, epoch: int) -> tuple[Params, float | None]:
        x, loss = self.adams.at(epoch)
        return self.like.unflatten(x), loss

    def state(self) -> State:
        arrays, scalars = self.adams.state()
        return arrays, scalars | {"last_loss": self.descent.last_loss}

    def restore(self, state: State) -> None:
        arrays, scalars = state
        self.adams.restore(arrays, scalars)
        self.descent.last_loss = float(scalars["last_loss"])

    def report(self) -> dict[str, Any]:
        adams = self.adams
        return {
            "steps": adams.steps,
            "rejected": adams.rejected,
            "orders": [int(count) for count in adams.orders],
            "rtol": adams.rtol,
            "atol": adams.atol,
        }

    def _law(self, cfg: Config, rtol: float, atol: float) -> Law:
        """Attention in closed form under interpolated forces; the plain force where attention stays as it is, or where the
        backend cannot tell the force on pi or has an attention of its own.
        """
        frozen, decay = frozen_blocks(cfg), self.descent.weight_decay
        decays = np.concatenate([np.full(value.size, 0.0 if name in frozen else decay) for name, value in self.like.items()])
        if cfg.freeze == "attention" or not tells_pi(cfg, self.descent.backend, self.task.train):
            return Plain(self._force, cfg.lr, self.rule, decays)
        return ClosedAttention(cfg, self.rule, self.descent, self.task.train, self.like, decays, rtol, atol)

    def _force(self, x: np.ndarray, epoch: float) -> tuple[float, np.ndarray]:
        """Loss, and the direction of descent."""
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows has no finite loss, and that is told
            loss, direction = self.descent(self.like.unflatten(x), self.task.train, epoch)
        return loss, direction.flatten()


def refuse(cfg: Config, engine: str) -> None:
    """Say why a config cannot be integrated."""
    require_vector_keys(cfg, f"engine {engine!r}")
    if cfg.optimizer != "sgd":
        raise ValueError(
            f"optimizer = {cfg.optimizer!r} cannot be represented by engine {engine!r}: its step is not a function of the "
            "weights alone; use engine 'steps'"
        )
    if not cfg.full_batch:
        raise ValueError(
            f"batch_size = {cfg.batch_size} cannot be represented by engine {engine!r}: gradients of minibatches do not vary "
            f"smoothly from step to step; use engine 'steps' or batch_size = n_train_seq = {cfg.n_train_seq}"
        )


def block_slices(params: Params) -> Iterator[slice]:
    """Where each block of weights lies in the flat vector."""
    start = 0
    for _, value in params.items():
        yield slice(start, start + value.size)
        start += value.size
