"""The law of leap: forces on attention and on the matrices are interpolated, the way from weights to attention is not.

Keys and queries act through pi (L, L) alone, which is known in closed form. So what needs the data is dloss/dpi and dloss/dm;
given dloss/dpi at an epoch, a step of descent of w_q and w_k costs microseconds. The fast modes of training, most of them in keys
and queries, are then followed epoch by epoch, and a leap is as long as dloss/dpi and dloss/dm are smooth.

What is interpolated is not dloss/dpi but dloss/dpi - H pi, H being the theory's expectation of the second derivative (`hessian`).
Whatever H is, what is interpolated exactly leads to the exact steps; a good H leaves something smoother to interpolate, and takes
away most of the error that comes from evaluating at a predicted point.
"""

from __future__ import annotations

import numpy as np

from ..attention import attention, frequencies, rotations
from ..config import Config
from ..params import Params
from ..task import Split
from .attention_steps import Path, attention_flow, attention_steps
from .curvature import hessian
from .descent import Descent
from .quadrature import Rule, combine

# An error, relative to the weights, that is no error but rounding
ROUNDING = 1e-14


class ClosedAttention:
    """Signal g = (dloss/dpi, pi, force on m), for weights x = (w_q, w_k, m) in one vector.

    Under the rule of integrals keys and queries follow their flow instead of their steps, to a hundredth of the tolerances.
    """

    def __init__(
        self,
        cfg: Config,
        rule: Rule,
        descent: Descent,
        split: Split,
        like: Params,
        decays: np.ndarray,
        rtol: float,
        atol: float,
    ) -> None:
        self.rule, self.rtol, self.atol = rule, rtol, atol
        self.cfg, self.descent, self.split, self.like = cfg, descent, split, like
        self.decays: np.ndarray | float = decays
        self.eta, self.decay = cfg.lr, descent.weight_decay
        self.keys = 2 * cfg.d_h
        self.cos, self.sin, self.pairs = rotations(frequencies(cfg), cfg.L)
        self.offset = np.eye(2 * cfg.L - 1)[self.pairs.ravel()]
        # Remembered, never part of the state: H at the last starts of steps, and how far the last path has been followed
        self._bent: list[tuple[np.ndarray, np.ndarray]] = []
        self._reached: tuple[np.ndarray, np.ndarray, float, np.ndarray] | None = None

    def signal(self, x: np.ndarray, epoch: float) -> tuple[float, np.ndarray]:
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows has no finite loss, and that is told
            pi, m = self._attention(x), self._matrices(x)
            loss, d_pi, d_m = self.descent.logic(pi, m.astype(self.like.m.dtype), self.split, epoch)
        force = -(d_m.astype(np.float64).ravel() + self.decay * x[self.keys :])
        if self.cfg.freeze == "logic":
            force[:] = 0
        return loss, np.concatenate([d_pi.ravel(), pi.ravel(), force])

    def force(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        d_pi, _, on_m = self._parts(g[None])
        return np.concatenate([self._on_keys(x, d_pi)[0] - self.decay * x[: self.keys], on_m[0]])

    def effect(self, x: np.ndarray, table: np.ndarray) -> np.ndarray:
        return np.hstack([self._on_keys(x, self._rest(x, table)), self._parts(table)[2]])

    def carry(self, x: np.ndarray, nodes: np.ndarray, table: np.ndarray, start: float, h: float) -> np.ndarray:
        m = x[self.keys :] + self.eta * combine(self.rule.moments(nodes, start, h), self._parts(table)[2])
        return np.concatenate([self._carry_keys(x, nodes, table, start, h), m])

    def _carry_keys(self, x: np.ndarray, nodes: np.ndarray, table: np.ndarray, start: float, h: float) -> np.ndarray:
        """Keys and queries h epochs later; steps continue from where the last call on the same path stood."""
        w, done = x[: self.keys], 0.0
        rest = self._rest(x, table)
        path = Path(np.asarray(nodes, np.float64), rest, self._hessian(x), self.cos, self.sin, self.pairs, self.decay)
        if not self.rule.discrete:
            size = float(np.sqrt(np.mean(w**2)))
            tolerance = max(0.01 * (self.atol + self.rtol * size), ROUNDING * size)
            return attention_flow(w, path, float(start), float(h), self.eta, tolerance)
        if self._reached and self._reached[0] is x and self._reached[1] is table and self._reached[2] <= h:
            done, w = self._reached[2:]
        w = attention_steps(w, path, int(start + done), int(h - done), self.eta)
        self._reached = (x, table, h, w)
        return w

    def _rest(self, x: np.ndarray, table: np.ndarray) -> np.ndarray:
        """Rows of dloss/dpi - H pi, with H at the start x of the step."""
        d_pi, pi, _ = self._parts(table)
        return d_pi - np.einsum("tji,kti->ktj", self._hessian(x), pi)

    def _on_keys(self, x: np.ndarray, d_pi: np.ndarray) -> np.ndarray:
        """Minus the pull-back of each of d_pi (q, L, L) to keys and queries at x; (q, 2 d_h)."""
        pi = self._attention(x)
        d_scores = pi * (d_pi - (pi * d_pi).sum(axis=-1, keepdims=True))
        by_offset = d_scores.reshape(len(d_pi), -1) @ self.offset / np.sqrt(self.cfg.d_h)
        dot, cross = by_offset @ self.cos, by_offset @ self.sin
        (q0, q1), (k0, k1) = x[: self.keys].reshape(2, -1, 2).swapaxes(1, 2)
        pulled = [dot * k0 - cross * k1, dot * k1 + cross * k0, dot * q0 + cross * q1, dot * q1 - cross * q0]
        return -np.stack(pulled, axis=-1).reshape(len(d_pi), -1, 2, 2).swapaxes(1, 2).reshape(len(d_pi), -1)

    def _parts(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        L = self.cfg.L
        return table[:, : L * L].reshape(-1, L, L), table[:, L * L : 2 * L * L].reshape(-1, L, L), table[:, 2 * L * L :]

    def _hessian(self, x: np.ndarray) -> np.ndarray:
        for start, H in self._bent:
            if start is x:
                return H
        H = hessian(self._attention(x), self._matrices(x))
        self._bent = [*self._bent[-1:], (x, H)]
        return H

    def _attention(self, x: np.ndarray) -> np.ndarray:
        return attention(self.cfg, x[: self.cfg.d_h], x[self.cfg.d_h : self.keys])

    def _matrices(self, x: np.ndarray) -> np.ndarray:
        return x[self.keys :].reshape(self.like.m.shape)
