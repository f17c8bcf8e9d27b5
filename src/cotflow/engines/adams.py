"""The summation Adams method: many steps of gradient descent from few gradients, with error control and dense output.

Gradient descent visits x_0, x_1, ... with x_{e+h} = x_e + sum_{k=e}^{e+h-1} eta f(x_k), exactly and for any h, and f(x_k) is a
smooth, slowly varying function of k. A step of order q interpolates f through the last q epochs visited and sums the polynomial
over the h integers (predictor); evaluates f at the point reached; and adds that value to the interpolation (corrector). The
polynomial is kept in Newton's form: with divided differences D_j of f and w_j(t) = (t - e_0)...(t - e_{j-1}),

    predictor  x + eta sum_{j<q} D_j M_j,    corrector = predictor + eta D_q M_q,    M_j = sum of w_j over the step.

With an integral in place of the sum the same machinery follows dx/dk = eta f(x), the gradient flow. What exactly is interpolated,
f or quantities from which f follows, is the affair of a `Law`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import BudgetExceeded, Diverged, RunFailed
from .laws import Law

# The step is chosen to meet this part of the tolerance: what is aimed lower is rarely rejected
AIM = 0.1
# A step grows by at most this factor
GROWTH = 4.0


class Trial(NamedTuple):
    """A step attempted: where it leads and how far predictor and corrector are apart, in units of the tolerance."""

    x: np.ndarray
    table: np.ndarray
    step_table: np.ndarray
    error: float
    loss: float
    slope: float


class Adams:
    """Variable step, variable order; a step costs one evaluation, which serves as corrector and as history.

    The error of a step is taken to be all of |corrector - predictor|, the root mean square over a block of x of its size
    relative to atol + rtol |x|, and the largest block counts. It bounds the corrector's error generously, and what it costs
    that f is known at the predicted point only. A step of one epoch under the summation rule has no error at all.
    """

    def __init__(
        self,
        law: Law,
        x: np.ndarray,
        end: float,
        blocks: Sequence[slice] = (slice(None),),
        rtol: float = 1e-5,
        atol: float = 1e-5,
        max_order: int = 8,
        max_step: float = math.inf,
        max_gradients: float = math.inf,
    ) -> None:
        self.law, self.end, self.blocks = law, end, blocks
        self.rtol, self.atol, self.max_order, self.max_step = rtol, atol, max_order, max_step
        self.max_gradients = max_gradients
        self.x = np.array(x, dtype=np.float64)
        self.epoch: float = 0
        self.nodes, self.table = np.zeros(0), np.zeros((0, 0))
        self.order, self.step = 1, 1.0
        self.gradients = self.steps = self.rejected = 0
        self.orders = np.zeros(max_order, dtype=np.int64)
        # The last step: its start and end, x there, the corrector's nodes and differences, loss and its slope at both ends
        self.span = np.zeros(2)
        self.start, self.step_nodes, self.step_table = self.x, np.zeros(0), self.table
        self.loss, self.slope = np.zeros(2), np.zeros(2)

    def begin(self) -> None:
        """Evaluate the signal at the start, once."""
        if len(self.nodes) == 0:
            loss, g = self._evaluate(self.x, self.epoch)
            f = self.law.force(self.x, g)
            self.nodes, self.table = np.array([self.epoch]), g[None]
            self.loss[:], self.slope[:] = loss, -_dot(self._fall(self.x, f), self.law.eta * f)

    def advance(self) -> None:
        """Take one step that meets the tolerance."""
        self.begin()
        if self.epoch >= self.end:
            raise ValueError(f"the run is at its end, epoch {self.epoch:g}")
        h = self._fit(self.step)
        trial = self._attempt(h)
        while trial is None or not (trial.error <= 1 or self._exact(h)):
            self.rejected += 1
            h = self._smaller(h, trial)
            trial = self._attempt(h)
        self._accept(h, trial)

    def at(self, epoch: float) -> tuple[np.ndarray, float]:
        """Weights and loss at an epoch of the last step, by the polynomial that made it and by cubic Hermite."""
        self.begin()
        first, last = self.span
        if not first <= epoch <= last:
            raise ValueError(f"epoch {epoch:g} is not in the last step, {first:g} to {last:g}")
        if epoch == self.epoch:
            return self.x, float(self.loss[1])
        if epoch == first:
            return self.start, float(self.loss[0])
        x = self.law.carry(self.start, self.step_nodes, self.step_table, first, epoch - first)
        return x, _hermite(epoch - first, last - first, self.loss, self.slope)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything that the next steps and dense output depend on."""
        self.begin()
        return {name: np.array(getattr(self, name)) for name in ARRAYS}, {name: getattr(self, name) for name in SCALARS}

    def restore(self, arrays: dict[str, np.ndarray], scalars: dict[str, Any]) -> None:
        """Take up a state."""
        for name in ARRAYS:
            setattr(self, name, np.array(arrays[name]))
        for name in SCALARS:
            setattr(self, name, scalars[name])

    def _attempt(self, h: float) -> Trial | None:
        """One step of h epochs; None where it leads to what is not finite and a shorter one may do better."""
        q, law = self.order, self.law
        predicted = law.carry(self.x, self.nodes[:q], self.table[:q], self.epoch, h)
        try:
            loss, g = self._evaluate(predicted, self.epoch + h)
        except Diverged:
            if self._exact(h):
                raise
            return None
        table = self._differences(g, self.epoch + h)
        step_table = np.vstack([self.table[:q], table[q : q + 1]])
        before = self.x
        if law.rule.discrete and h > 1:
            before = law.carry(self.x, self.nodes[:q], step_table, self.epoch, h - 1)
        corrected = law.carry(self.x, self.nodes[:q], step_table, self.epoch, h)
        error = float(self._sizes((corrected - predicted)[None])[0])
        if not math.isfinite(error) and not self._exact(h):
            return None
        # The path goes along eta f: at the middle of two steps, if it goes by steps
        f = law.force(predicted, g)
        fall = self._fall(predicted, f)
        along = (law.eta * f + corrected - before) / 2 if law.rule.discrete else law.eta * f
        return Trial(corrected, table, step_table, error, loss - _dot(fall, corrected - predicted), -_dot(fall, along))

    def _fall(self, x: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Minus the gradient of the loss: weight decay moves x, but is no part of the loss."""
        return f + self.law.decays * x

    def _accept(self, h: float, trial: Trial) -> None:
        q = self.order
        self.start, self.step_nodes, self.step_table = self.x, self.nodes[:q], trial.step_table
        end = self.epoch + h
        self.span = np.array([self.epoch, end])
        self.x, self.epoch = trial.x, end
        self.nodes = np.concatenate([[end], self.nodes])[: self.max_order + 1]
        self.table = trial.table[: self.max_order + 1]
        self.loss = np.array([self.loss[1], trial.loss])
        self.slope = np.array([self.slope[1], trial.slope])
        self.steps += 1
        self.orders[q - 1] += 1
        self.order, self.step = self._next(h, self._sizes(self.law.effect(self.x, trial.table)))

    def _next(self, h: float, sizes: np.ndarray) -> tuple[int, float]:
        """The order whose step may be longest, by the error that the divided differences foretell, and that step."""
        highest = min(len(self.table) - 1, self.max_order, self.order + 1)
        choices = []
        for q in range(1, highest + 1):
            reach = self._reach(q, sizes[q], GROWTH * h)
            choices.append((reach, -self._error(q, sizes[q], reach), q))
        reach, _, order = max(choices)
        return order, reach

    def _smaller(self, h: float, trial: Trial | None) -> float:
        """A step in place of one of h that failed."""
        if trial is None:
            shorter = h / GROWTH
        else:
            size = self._sizes(self.law.effect(self.x, trial.table[self.order : self.order + 1]))[0]
            shorter = self._reach(self.order, size, 0.8 * h)
        shorter = self._whole(shorter)
        if shorter < 1e-9 * self.end:
            raise RunFailed(f"no step from epoch {self.epoch:g} meets the tolerance; loosen rtol and atol, or use engine 'steps'")
        return shorter

    def _reach(self, q: int, size: float, longest: float) -> float:
        """The longest step (at most `longest`) of order q whose error stays at what is aimed at."""
        low, high = (1.0 if self.law.rule.discrete else 1e-9 * self.end), self._whole(min(longest, self.max_step))
        if high <= low or self._error(q, size, high) <= AIM:
            return max(low, high)
        while high > 1.02 * low and self._whole(math.sqrt(low * high)) not in (low, high):
            middle = self._whole(math.sqrt(low * high))
            low, high = (middle, high) if self._error(q, size, middle) <= AIM else (low, middle)
        return low

    def _error(self, q: int, size: float, h: float) -> float:
        """By how much corrector and predictor of order q will differ after h epochs: eta M_q(h) |D_q|."""
        return self.law.eta * size * float(self.law.rule.moments(self.nodes[:q], self.epoch, h)[q])

    def _fit(self, h: float) -> float:
        """The step, cut at the end of the run, with no sliver left."""
        left = self.end - self.epoch
        return left if h >= left else h if 2 * h <= left else self._whole((left + self.law.rule.discrete) / 2)

    def _whole(self, h: float) -> float:
        return max(1.0, math.floor(h)) if self.law.rule.discrete else h

    def _exact(self, h: float) -> bool:
        return self.law.rule.discrete and h == 1

    def _evaluate(self, x: np.ndarray, epoch: float) -> tuple[float, np.ndarray]:
        if self.gradients >= self.max_gradients:
            jumps = ", or use engine 'steps' where the learning rate is so large that single steps jump"
            raise BudgetExceeded(
                f"{self.gradients} gradients are spent at epoch {self.epoch:g} of {self.end:g}; raise max_gradients, loosen rtol "
                "and atol (below 1e-7 they ask for more than float32 has: set dtype = float64)"
                f"{jumps if self.law.rule.discrete else ''}"
            )
        self.gradients += 1
        loss, g = self.law.signal(x, epoch)
        if not (math.isfinite(loss) and np.isfinite(g).all()):
            raise Diverged(f"the force is no longer finite at epoch {epoch:g}; a smaller learning rate may help")
        return loss, g

    def _differences(self, g: np.ndarray, epoch: float) -> np.ndarray:
        """Divided differences of the signal through the new epoch and the history, newest first; row j has j+1 nodes."""
        table = np.empty((len(self.nodes) + 1, len(g)))
        table[0] = g
        for j in range(len(self.nodes)):
            np.subtract(table[j], self.table[j], out=table[j + 1])
            table[j + 1] /= epoch - self.nodes[j]
        return table

    def _sizes(self, rows: np.ndarray) -> np.ndarray:
        """Root mean square of each row in units of the tolerance, over its worst block."""
        scaled = rows / (self.atol + self.rtol * np.abs(self.x))
        parts = [np.sqrt(np.einsum("jd,jd->j", part, part) / part.shape[1]) for b in self.blocks if (part := scaled[:, b]).size]
        return np.max(parts, axis=0)


ARRAYS = ("x", "nodes", "table", "orders", "span", "start", "step_nodes", "step_table", "loss", "slope")
SCALARS = ("epoch", "order", "step", "gradients", "steps", "rejected")


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.einsum("d,d->", a, b))


def _hermite(s: float, h: float, values: np.ndarray, slopes: np.ndarray) -> float:
    """The cubic through both ends of a step of h epochs, s epochs after its start."""
    u = s / h
    rise = values[1] - values[0]
    bend = h * (slopes[0] * (1 - u) - slopes[1] * u) - rise * (1 - 2 * u)
    return float(values[0] + u * rise + u * (1 - u) * bend)
