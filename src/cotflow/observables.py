"""What is measured along a run: order parameters, losses, accuracies, logit statistics; one vocabulary with the theory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .config import Config
from .params import Params
from .task import Split, Task

if TYPE_CHECKING:
    from .gradients.backends import Backend

#: Observables along `split`, in the order in which `split_observables` measures them.
SPLIT_OBSERVABLES = ("loss", "next_token_accuracy", "rollout_accuracy", "mu_k", "var_k", "mu_o", "var_o")


def order_parameters(permutations: np.ndarray, m: np.ndarray) -> tuple[float, float]:
    """R and S: overlap of the matrices m (d_g, N, N) with their own and with the other teacher matrices.

    R = (1/d_g) sum_a tr(m*_a^T m_a) / N, and S the mean of tr(m*_a^T m_b) / N over a != b (0 where d_g = 1).
    """
    d_g, N = permutations.shape
    a, s = np.arange(d_g)[:, None], np.arange(N)[None, :]
    own = float(m[a, permutations, s].sum(dtype=np.float64))
    if d_g == 1:
        return own / N, 0.0
    every = float((_images(permutations) * m.sum(axis=0, dtype=np.float64)).sum())
    return own / (d_g * N), (every - own) / (d_g * (d_g - 1) * N)


def teacher_overlap(permutations: np.ndarray) -> float:
    """tau, the mean overlap tr(m*_a^T m*_b) / N of different teacher matrices (0 where d_g = 1)."""
    d_g, N = permutations.shape
    if d_g == 1:
        return 0.0
    agree = (_images(permutations) ** 2).sum()
    return float(agree - d_g * N) / (d_g * (d_g - 1) * N)


def _images(permutations: np.ndarray) -> np.ndarray:
    """How many permutations take state s to state r, (r, s): the sum of the teacher matrices."""
    N = permutations.shape[1]
    count = np.zeros((N, N))
    np.add.at(count, (permutations, np.broadcast_to(np.arange(N), permutations.shape)), 1.0)
    return count


def observe(cfg: Config, task: Task, params: Params, backend: Backend, train_loss: float | None = None) -> dict[str, np.ndarray]:
    """Every observable at one moment: scalars, `attention` (L, L), and along the splits (train, test).

    The train loss is over all training sequences: pass it in where it is known (an engine has it from its gradient), else it is
    computed. The train split's other values are over its first `n_eval_seq` sequences.
    """
    pi = backend.attention(cfg, params, task.train_eval)
    R, S = order_parameters(task.permutations, params.m)
    rows = [split_observables(cfg, params, split, backend) for split in (task.train_eval, task.test)]
    if train_loss is None and task.train_eval is not task.train:
        train_loss = backend.statistics(cfg, params, task.train).loss
    if train_loss is not None:
        rows[0][0] = train_loss
    return {
        "A": np.array(np.trace(pi) / cfg.L),
        "R": np.array(R),
        "S": np.array(S),
        "zeta": np.array(params.m.sum(dtype=np.float64) / (cfg.d_g * cfg.N)),
        "attention": pi.astype(np.float64),
        **{name: np.array([row[i] for row in rows]) for i, name in enumerate(SPLIT_OBSERVABLES)},
    }


def split_observables(cfg: Config, params: Params, split: Split, backend: Backend) -> list[float]:
    """The values of `SPLIT_OBSERVABLES` on one split."""
    s = backend.statistics(cfg, params, split)
    generated = backend.rollout(cfg, params, split.actions, split.states[:, 0])
    rollout_accuracy = float(np.mean(generated[:, -1] == split.states[:, -1]))
    return [s.loss, s.next_token_accuracy, rollout_accuracy, s.mu_k, s.var_k, s.mu_o, s.var_o]
