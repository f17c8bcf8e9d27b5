"""What the fused kernel prepares once a split: items sorted by state and position, and lists of items that share an action.

An *item* is a pair (sequence n, position t). All items of one group, of equal state s_t and position t, combine the same d_g
rows of m with the same weights pi[t]. Within blocks of a group and for each j, the items with equal action j are listed four at
a time, so that the kernel adds four of their residuals in registers before it touches the table of sums.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit

from ..task import Split
from . import shared_cache  # noqa: F401  (before anything is compiled)

BLOCK = 192
QUAD = 4


class Quads(NamedTuple):
    """For block b of the sorted items and each j: quads `first[b, j]` to the next, with their items and common action.

    Items are numbered within their block; places left over in a quad hold the number BLOCK, a row of zeros.
    """

    first: np.ndarray  # (blocks * L + 1,)
    items: np.ndarray  # (quads, 4) uint16
    actions: np.ndarray  # (quads,) uint16


class Plan:
    """The items of a split, sorted by (state, position) with a counting sort: their actions and their targets."""

    def __init__(self, actions: np.ndarray, states: np.ndarray, N: int, d_g: int) -> None:
        self.N, self.d_g = N, d_g
        self.n, self.L = actions.shape
        self.start, self.actions, self.targets = _sort(actions, states, N)

    @cached_property
    def quads(self) -> Quads:
        """The lists for the backward pass; made when the first gradient asks for them."""
        blocks = -(-np.diff(self.start) // BLOCK)
        first = np.zeros(int(blocks.sum()) * self.L + 1, np.int64)
        most = self.actions.size
        items, actions = np.empty((most, QUAD), np.uint16), np.empty(most, np.uint16)
        used = _list_quads(self.start, self.actions, self.d_g, first, items, actions)
        return Quads(first, items[:used].copy(), actions[:used].copy())

    @cached_property
    def first_block(self) -> np.ndarray:
        """Number of the first block of each group; shape (N * L + 1,)."""
        return np.concatenate([[0], np.cumsum(-(-np.diff(self.start) // BLOCK))])


def prepare(split: Split, N: int, d_g: int) -> Plan:
    """The plan of a split, made once and kept with it."""
    plan = split.prepared.get("fused")
    if plan is None or (plan.N, plan.d_g) != (N, d_g):
        plan = split.prepared["fused"] = Plan(split.actions, split.states, N, d_g)
    return plan


@njit(cache=True, nogil=True)
def _sort(actions, states, N):  # type: ignore[no-untyped-def]
    """Counting sort of items (n, t) by s_t * L + t: starts of the groups, actions (items, L), targets (items,)."""
    n, L = actions.shape
    start = np.zeros(N * L + 1, np.int64)
    for i in range(n):
        for t in range(L):
            start[states[i, t] * L + t + 1] += 1
    for g in range(N * L):
        start[g + 1] += start[g]
    place = start[:-1].copy()
    sorted_actions = np.empty((n * L, L), np.uint16)
    targets = np.empty(n * L, np.uint16)
    for i in range(n):
        for t in range(L):
            group = states[i, t] * L + t
            k = place[group]
            place[group] += 1
            targets[k] = states[i, t + 1]
            for j in range(L):
                sorted_actions[k, j] = actions[i, j]
    return start, sorted_actions, targets


@njit(cache=True, nogil=True)
def _list_quads(start, actions, d_g, first, items, quad_actions):  # type: ignore[no-untyped-def]
    """Fill the lists of `Quads`, in the order in which a quad's first item comes; returns the number of quads.

    Neighbouring quads so have different actions, and a table row is not read back right after it was written.
    """
    L = actions.shape[1]
    open_quad = np.full(d_g, -1, np.int64)
    filled = np.zeros(d_g, np.int64)
    used = 0
    row = 0
    for group in range(len(start) - 1):
        for begin in range(start[group], start[group + 1], BLOCK):
            count = min(BLOCK, start[group + 1] - begin)
            for j in range(L):
                first[row] = used
                row += 1
                for i in range(count):
                    a = actions[begin + i, j]
                    q = open_quad[a]
                    if q < 0:
                        q = used
                        used += 1
                        open_quad[a] = q
                        filled[a] = 0
                        quad_actions[q] = a
                        for k in range(QUAD):
                            items[q, k] = BLOCK
                    items[q, filled[a]] = i
                    filled[a] += 1
                    if filled[a] == QUAD:
                        open_quad[a] = -1
                for q in range(first[row - 1], used):
                    open_quad[quad_actions[q]] = -1
    first[row] = used
    return used
