"""The learnable weights: keys, queries, logic matrices; their initial draw, the teacher's, and a record's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from .attention import frequencies
from .config import Config
from .task import Task, check_seed

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Params:
    """Weights of the student, or a gradient with respect to them.

    `w_q`, `w_k` are the query and key vectors (d_h,), or matrices (d_h, d_model) beside an `embedding`
    (d_g + N, d_model) of all tokens, learned unless `fix_embedding`; `m[a, r, s]` (d_g, N, N) takes state s to the logit of
    next state r under action a.
    """

    w_q: np.ndarray
    w_k: np.ndarray
    m: np.ndarray
    embedding: np.ndarray | None = None

    @classmethod
    def initial(cls, cfg: Config, seed: int = 0) -> Params:
        """Uniform weights of variance `init_variance` from `default_rng([seed, 1])`, in the order w_q, w_k, m.

        Wider embeddings (`d_model` > 1) divide the variance of w_q and w_k by d_model, so that keys and queries start with
        the same variance; embeddings that are learned start at one, where the fixed ones stay.
        """
        rng = np.random.default_rng([check_seed(seed), 1])
        bound = np.sqrt(3.0 * cfg.init_variance)
        shape = shapes(cfg)
        w_q, w_k = (rng.uniform(-1.0, 1.0, shape["w_q"]) * (bound / np.sqrt(cfg.d_model)) for _ in range(2))
        m = rng.uniform(-1.0, 1.0, shape["m"]) * bound
        embedding = np.ones(shape["embedding"]) if "embedding" in shape else None
        return cls(w_q, w_k, m, embedding).astype(cfg.dtype)

    @classmethod
    def teacher(cls, cfg: Config, task: Task, margin: float = 20.0, scale: float = 1.0) -> Params:
        """Weights that solve the task: `scale` times the teacher's matrices, and keys that pick the right action.

        Keys and queries are aligned so that the score of offset -L exceeds the others by at least `margin`; a `ValueError` where
        the frequencies permit no such alignment.
        """
        if not vector_keys(cfg):
            raise ValueError("the teacher's attention needs fix_embedding = True and d_model = 1")
        if task.permutations.shape != (cfg.d_g, cfg.N):
            raise ValueError(f"task has permutations of shape {task.permutations.shape}; this config needs {(cfg.d_g, cfg.N)}")
        if not 0 < margin < np.inf:
            raise ValueError(f"margin = {margin!r} is not allowed; allowed: positive numbers")
        w_q, w_k = _retrieval(cfg, margin)
        return cls(w_q, w_k, scale * task.teacher).astype(cfg.dtype)

    @classmethod
    def of(cls, run: xr.Dataset, epoch: int | None = None) -> Params:
        """The weights that a record carries: the final ones, the initial ones (epoch 0), or those of a snapshot."""
        from .trajectory import weights_of

        return cls(**weights_of(run, epoch))

    def items(self) -> Iterator[tuple[str, np.ndarray]]:
        """Name and array of every block of weights that is there."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                yield field.name, value

    def astype(self, dtype: str | np.dtype | type) -> Params:
        """The same weights in another precision; always a copy."""
        return Params(**{name: np.array(value, dtype=dtype, order="C") for name, value in self.items()})

    def flatten(self, dtype: str | type = "float64") -> np.ndarray:
        """All weights as one vector, in the order of `items`."""
        return np.concatenate([value.ravel() for _, value in self.items()]).astype(dtype)

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits over all weights."""
        return hashlib.sha256(self.flatten().tobytes()).hexdigest()[:16]

    def unflatten(self, vector: np.ndarray) -> Params:
        """A vector in the order of `flatten` as weights of this shape and precision."""
        blocks, start = {}, 0
        for name, value in self.items():
            blocks[name] = vector[start : start + value.size].reshape(value.shape).astype(value.dtype)
            start += value.size
        return Params(**blocks)

    def check(self, cfg: Config) -> Params:
        """Pass on weights that fit the config, in its precision; say which block does not."""
        expected = shapes(cfg)
        given = {name: np.shape(value) for name, value in self.items()}
        for name in expected | given:
            if expected.get(name) != given.get(name):
                raise ValueError(f"params.{name} has shape {given.get(name)}; this config needs {expected.get(name)}")
        return self.astype(cfg.dtype)


def shapes(cfg: Config) -> dict[str, tuple[int, ...]]:
    """Shape of every block of weights that a config has."""
    if vector_keys(cfg):
        return {"w_q": (cfg.d_h,), "w_k": (cfg.d_h,), "m": (cfg.d_g, cfg.N, cfg.N)}
    keys, embedding = (cfg.d_h, cfg.d_model), (cfg.d_g + cfg.N, cfg.d_model)
    return {"w_q": keys, "w_k": keys, "m": (cfg.d_g, cfg.N, cfg.N), "embedding": embedding}


def vector_keys(cfg: Config) -> bool:
    """Whether keys and queries are the paper's vectors (unit embeddings of dimension 1)."""
    return cfg.fix_embedding and cfg.d_model == 1


def require_vector_keys(cfg: Config, what: str) -> None:
    """Refuse, in one sentence, a config whose attention may depend on the tokens."""
    if not vector_keys(cfg):
        field = "d_model = " + str(cfg.d_model) if cfg.fix_embedding else "fix_embedding = False"
        raise ValueError(
            f"{field} cannot be represented by {what}, which needs fix_embedding = True and d_model = 1; "
            "use engine 'steps' with backend 'torch'"
        )


def _retrieval(cfg: Config, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """Keys and queries whose score peaks at offset -L by `margin`.

    With w_k = 1 in each plane's first component and w_q the same rotated by the angle -w_n L, the score of offset D is
    g² sum_n c_n cos(w_n (D + L)) / sqrt(d_h): a sum of cosines that all peak at D = -L.
    """
    omega = frequencies(cfg)
    angle = -omega * cfg.L
    w_k = np.stack([np.ones_like(omega), np.zeros_like(omega)], axis=1).ravel()
    w_q = np.stack([np.cos(angle), np.sin(angle)], axis=1).ravel()
    lags = np.arange(1, cfg.L)
    if len(lags) == 0:
        return w_q, w_k
    peak = (1 - np.cos(np.outer(lags, omega))).sum(axis=1).min() / np.sqrt(cfg.d_h)
    if peak < 1e-9:
        raise ValueError(f"the RoPE frequencies of d_h = {cfg.d_h}, rope_law = {cfg.rope_law!r} cannot tell {cfg.L} lags apart")
    gain = np.sqrt(margin / peak)
    return gain * w_q, gain * w_k
