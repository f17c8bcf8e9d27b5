"""Where does a seed's dynamics start, and what does the theory know of its training set?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..attention import attention
from ..config import Config
from ..observables import order_parameters, teacher_overlap
from ..params import Params
from ..task import Split, Task, check_seed, teacher_matrices
from ..vocabulary import permutations
from .border import weights_for

Array = NDArray[np.float64]
Data = Literal["training", "population"]


@dataclass(frozen=True)
class Start:
    """A seed's permutations (d_g, N), initial weights in float64, and what is known of its training set.

    `pull` (L, L) is dl/dpi of the training set at these weights, None for an infinite set. `share` (N, d_g) is the frequency
    of state s with action c among the training set's predictions, times d_g N: all ones for an infinite set. `memory` is
    one over the mean count of a (state, action), 0 for an infinite set.

    >>> Start.of(Config.preset("smoke"), seed=0, data="population").share.shape
    (8, 8)
    """

    permutations: NDArray[np.int64]
    params: Params
    share: Array
    memory: float = 0.0
    pull: Array | None = None

    @classmethod
    def of(cls, cfg: Config, seed: int, params: Params | None = None, data: Data = "training") -> Start:
        """The start of a seed: its own initial weights, or the weights handed in."""
        if data not in ("training", "population"):
            raise ValueError(f"data = {data!r} is not allowed; allowed: 'training' or 'population'")
        params = (Params.initial(cfg, seed) if params is None else weights_for(cfg, params)).astype("float64")
        if data == "population":
            table = permutations(cfg.vocabulary, cfg.N, cfg.d_g, np.random.default_rng(check_seed(seed)))
            return cls(table, params, np.ones((cfg.N, cfg.d_g)))
        task = Task(cfg, seed)
        memory = cfg.N * cfg.d_g / task.train.actions.size
        return cls(task.permutations, params, shares(task.train, cfg.N, cfg.d_g), memory, pull_of(cfg, params, task.train))

    @cached_property
    def overlaps(self) -> tuple[float, float]:
        """R and S of the start."""
        return order_parameters(self.permutations, self.params.m)

    @property
    def tau(self) -> float:
        """The mean overlap of different teacher matrices."""
        return teacher_overlap(self.permutations)

    @property
    def zeta(self) -> float:
        """The conserved sum of the logits."""
        d_g, N = self.permutations.shape
        return float(self.params.m.sum() / (d_g * N))

    @property
    def noise(self) -> float:
        """v, the variance of m about its best fit by own teacher matrices, the others' mean, and a constant.

        >>> round(Start.of(Config.preset("main"), seed=0, data="population").noise, 2)
        0.33
        """
        own = teacher_matrices(self.permutations)
        directions = np.stack([own.ravel(), (own.sum(axis=0) - own).ravel(), np.ones(own.size)], axis=1)
        m = self.params.m.ravel()
        weights = np.linalg.lstsq(directions, m, rcond=None)[0]
        return float(np.var(m - directions @ weights))


def shares(split: Split, N: int, d_g: int) -> Array:
    """Frequency of each state s and action c among a split's predictions, times d_g N; shape (N, d_g).

    >>> shares(Split(np.array([[0, 1]]), np.array([[0, 1, 0]])), 2, 2)
    array([[2., 0.],
           [0., 2.]])
    """
    counts = np.bincount((split.inputs * d_g + split.actions).ravel(), minlength=N * d_g)
    return counts.reshape(N, d_g).astype(np.float64) * (N * d_g / split.actions.size)


def pull_of(cfg: Config, params: Params, split: Split) -> Array:
    """dl/dpi of a split at given weights, (L, L): how its loss asks each position to attend.

    >>> cfg = Config.preset("smoke")
    >>> pull_of(cfg, Params.initial(cfg, 0), Task(cfg, 0).train).shape
    (5, 5)
    """
    from ..gradients import fused  # only here: it compiles

    pi = attention(cfg, params.w_q, params.w_k)
    plan = fused.prepare(split, cfg.N, cfg.d_g)
    return fused.loss_and_gradient(pi, params.m.astype(cfg.dtype), plan)[1]
