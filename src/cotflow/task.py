"""The task: permutations, sequences of actions and states, and the teacher that solves it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .config import Config
from .vocabulary import permutations


@dataclass(frozen=True)
class Split:
    """Sequences of one split: `actions` (n, L) and the states they lead through, `states` (n, L+1).

    `prepared` is where a gradient backend keeps what it computes once a split (sort orders, tensors on a device).
    """

    actions: np.ndarray
    states: np.ndarray
    prepared: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", np.asarray(self.actions))
        object.__setattr__(self, "states", np.asarray(self.states))

    def __len__(self) -> int:
        return len(self.actions)

    def check(self, cfg: Config) -> Split:
        """Pass on sequences that fit a config (looked at once); kernels take every number on trust."""
        sizes = (cfg.N, cfg.L, cfg.d_g)
        if self.prepared.get("checked") != sizes:
            check_sequences(cfg, self.actions, self.states, "states", (len(self), cfg.L + 1))
            self.prepared["checked"] = sizes
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {"actions": self.actions, "states": self.states, "prepared": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def take(self, rows: np.ndarray | slice) -> Split:
        """Some of the sequences, as a split of their own."""
        return Split(self.actions[rows], self.states[rows])

    @property
    def inputs(self) -> np.ndarray:
        """States that are given at each predictor position t, s_t; shape (n, L)."""
        return self.states[:, :-1]

    @property
    def targets(self) -> np.ndarray:
        """Teacher-forcing targets s_{t+1}; shape (n, L)."""
        return self.states[:, 1:]


class Task:
    """A seed's permutations and data sets, drawn from `default_rng(seed)` in a fixed order.

    The order is: permutations, train actions, train s_0, test actions, test s_0.

    >>> task = Task(Config.preset("smoke"), seed=0)
    >>> task.permutations.shape, task.train.actions.shape, task.train.states.shape
    ((8, 8), (1024, 5), (1024, 6))
    """

    def __init__(self, cfg: Config, seed: int = 0) -> None:
        self.cfg = cfg
        self.seed = check_seed(seed)
        rng = np.random.default_rng(self.seed)
        self.permutations = permutations(cfg.vocabulary, cfg.N, cfg.d_g, rng)
        self.train = self._draw(cfg.n_train_seq, rng)
        self.test = self._draw(cfg.n_test_seq, rng)

    def __repr__(self) -> str:
        return f"Task(N={self.cfg.N}, L={self.cfg.L}, d_g={self.cfg.d_g}, seed={self.seed})"

    @property
    def teacher(self) -> np.ndarray:
        """Permutation matrices `teacher[a, permutations[a, s], s] = 1`; shape (d_g, N, N)."""
        return teacher_matrices(self.permutations)

    @cached_property
    def train_eval(self) -> Split:
        """The first `n_eval_seq` training sequences, on which the train split's accuracies are measured."""
        return self.train if self.cfg.n_eval_seq >= len(self.train) else self.train.take(slice(self.cfg.n_eval_seq))

    def sequences(self, actions: np.ndarray, s0: np.ndarray) -> Split:
        """One's own action sequences (n, L) and first states (n,), with the states that they lead through."""
        actions, s0 = np.asarray(actions), np.asarray(s0)
        check_sequences(self.cfg, actions, s0, "s0", actions.shape[:1])
        return Split(actions, chain(self.permutations, actions, s0))

    def _draw(self, n: int, rng: np.random.Generator) -> Split:
        actions = rng.integers(0, self.cfg.d_g, (n, self.cfg.L))
        s0 = rng.integers(0, self.cfg.N, n)
        return self.sequences(actions, s0)


def check_seed(seed: int) -> int:
    """A seed as NumPy takes it: a non-negative whole number."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed = {seed!r} is not allowed; allowed: whole numbers from 0")
    return int(seed)


def check_sequences(cfg: Config, actions: np.ndarray, states: np.ndarray, name: str, shape: tuple[int, ...]) -> None:
    """Refuse actions other than (n, L) whole numbers below d_g, and states, called `name`, other than `shape` ones below N."""
    if actions.ndim != 2 or actions.shape[1] != cfg.L or len(actions) == 0 or states.shape != shape:
        wanted = "(n,)" if len(shape) < 2 else f"(n, {shape[1]})"
        raise ValueError(
            f"actions has shape {actions.shape} and {name} {states.shape}; allowed: (n, L = {cfg.L}) and {wanted}, n of 1 or more"
        )
    for what, values, limit in (("actions", actions, cfg.d_g), (name, states, cfg.N)):
        if not np.issubdtype(values.dtype, np.integer) or values.min() < 0 or values.max() >= limit:
            raise ValueError(f"{what} holds values outside the whole numbers 0 to {limit - 1}")


def chain(permutations: np.ndarray, actions: np.ndarray, s0: np.ndarray) -> np.ndarray:
    """States s_0..s_L with s_{t+1} = permutations[g_{t+1}, s_t], paper Eq. (1); shape (n, L+1)."""
    states = np.empty((len(actions), actions.shape[1] + 1), dtype=np.int64)
    states[:, 0] = s0
    for t in range(actions.shape[1]):
        states[:, t + 1] = permutations[actions[:, t], states[:, t]]
    return states


def tokens(split: Split, d_g: int) -> np.ndarray:
    """The token sequence x_1..x_{2L+1} of paper Eq. (2) with states numbered after the actions; shape (n, 2L+1)."""
    return np.concatenate([split.actions, d_g + split.states], axis=1)


def teacher_matrices(permutations: np.ndarray) -> np.ndarray:
    """The permutation matrices m*[a, permutations[a, s], s] = 1; shape (d_g, N, N)."""
    d_g, N = permutations.shape
    matrices = np.zeros((d_g, N, N))
    matrices[np.arange(d_g)[:, None], permutations, np.arange(N)[None, :]] = 1.0
    return matrices
