"""Ordinary differential equations along a grid of training times, loud when they do not converge."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import DOP853

from ..errors import RunFailed

Array = NDArray[np.float64]


def along(
    rhs: Callable[[float, Array], Array],
    start: Array,
    grid: Array,
    *,
    rtol: float,
    atol: float,
    budget: float = 100_000,
) -> Iterator[Array]:
    """Yield the solution of dy/dalpha = rhs(alpha, y) at each increasing grid time, the first being the start.

    The method is that of Dormand and Prince of order 8(5,3). States are handed over one by one, so that a large state is
    never stored for the whole grid. A solver that stops early, or needs more than `budget` right-hand sides, raises
    RunFailed with the training time that it reached; so does a start whose slope is not finite.

    >>> decay = along(lambda alpha, y: -y, np.ones(1), np.array([0.0, 1.0]), rtol=1e-10, atol=1e-12)
    >>> [round(float(y[0]), 9) for y in decay]
    [1.0, 0.367879441]
    """
    yield start
    if len(grid) == 1:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        solver = DOP853(rhs, grid[0], start, grid[-1], rtol=rtol, atol=atol)
    if not (np.isfinite(solver.f).all() and np.isfinite(solver.h_abs)):
        raise RunFailed(f"the theory's equations have no finite slope at alpha = {grid[0]:.6g}, where they start")
    k = 1
    while k < len(grid):
        message = solver.step()
        if solver.nfev > budget:
            message = f"more than {budget:,.0f} right-hand sides"
        elif not np.isfinite(solver.y).all():
            message = "the solution is not finite"
        if message:
            raise RunFailed(f"the theory's equations could not be solved beyond alpha = {solver.t:.6g}: {message}")
        dense = solver.dense_output()
        while k < len(grid) and grid[k] <= solver.t:
            yield dense(grid[k])
            k += 1
