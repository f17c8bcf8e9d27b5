"""The direction of descent: what an optimiser adds to the weights, with weight decay and frozen blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ..config import Config
from ..errors import Diverged
from ..gradients.backends import Backend
from ..params import Params
from ..task import Split

_FROZEN = {"none": (), "attention": ("w_q", "w_k", "embedding"), "logic": ("m",)}


class Descent:
    """f(x) = -grad of (loss + weight_decay |x|² / 2) on a split, zero for frozen blocks; counts its evaluations.

    AdamW decouples its weight decay, so there f is -grad loss alone.
    """

    def __init__(self, cfg: Config, backend: Backend) -> None:
        self.cfg = cfg
        self.backend = backend
        self.evaluations = 0
        self.last_loss = math.nan
        self.weight_decay = cfg.weight_decay if cfg.optimizer == "sgd" else 0.0

    def __call__(self, params: Params, split: Split, epoch: float) -> tuple[float, Params]:
        """Loss at `params` and f; `Diverged` where either is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            loss, gradient = self.backend.loss_and_gradient(self.cfg, params, split)
            blocks = dict(gradient.items())
            self._check(loss, blocks.values(), epoch)
            weights = dict(params.items())
            for name, block in blocks.items():
                if name in frozen_blocks(self.cfg):
                    blocks[name] = np.zeros_like(block)
                elif self.weight_decay:
                    blocks[name] = -(block + block.dtype.type(self.weight_decay) * weights[name])
                else:
                    blocks[name] = -block
        return loss, Params(**blocks)

    def logic(self, pi: np.ndarray, m: np.ndarray, split: Split, epoch: float) -> tuple[float, np.ndarray, np.ndarray]:
        """Loss under attention pi, and its gradient in pi and in m, without weight decay; `Diverged` where any is not finite."""
        loss, d_pi, d_m = self.backend.logic_gradient(pi, m, split)
        self._check(loss, (d_pi, d_m), epoch)
        return loss, d_pi, d_m

    def _check(self, loss: float, gradients: Iterable[np.ndarray], epoch: float) -> None:
        self.evaluations += 1
        if not math.isfinite(loss) or not all(np.isfinite(gradient).all() for gradient in gradients):
            raise diverged(self.cfg, epoch, self.last_loss)
        self.last_loss = loss


def diverged(cfg: Config, epoch: float, last_loss: float) -> Diverged:
    """What to say of a loss, gradient or weight that is not finite; `last_loss` is nan where none ever was."""
    if math.isnan(last_loss):
        return Diverged("the loss is not finite at the start, before any step; smaller initial weights may help")
    return Diverged(
        f"the loss is no longer finite at epoch {epoch:g} with lr = {cfg.lr:g} "
        f"(last finite loss: {last_loss:.6g}); a smaller learning rate may help"
    )


def frozen_blocks(cfg: Config) -> tuple[str, ...]:
    """Names of the weights that keep their initial values."""
    fixed = ("embedding",) if cfg.fix_embedding else ()
    return (*_FROZEN[cfg.freeze], *fixed)
