"""What the fused kernel prepares once a split: items sorted by state and position, and lists of items that share an action.

An *item* is a pair (sequence n, position t). All items of one *group*, of equal state s_t and position t, combine the same d_g
rows of m with the same weights pi[t]. A group is cut into *blocks* whose residuals stay in the first-level cache. Within a block
and for each j, the items with equal action j are listed four at a time, so that the kernel adds four of their residuals in
registers before it touches a sum.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..task import Split
from .compiling import compiled
from .rows import peek, poke

# items of a block, at most: with 32 float32 numbers each they fill two thirds of a cache of 48 KB
BLOCK = 256
# a quad is one word of 64 bits: four items, numbered from 1 in their block, and their action; small loads are as dear as a row's
ITEMS, ITEM_BITS = 4, 12
ACTION_SHIFT = ITEMS * ITEM_BITS


class Plan:
    """The items of a split, sorted by (state, position) with a counting sort.

    `blocks` (number of blocks + 1,) holds the first item of each block, `groups` (N L + 1,) the first block of each group;
    `actions` (items, L) the actions of each item's sequence, `targets` (items,) its next state.
    """

    def __init__(self, actions: np.ndarray, states: np.ndarray, N: int, d_g: int) -> None:
        self.N, self.d_g = N, d_g
        self.n, self.L = actions.shape
        start, self.actions, self.targets = _sort(actions.astype(np.int64, copy=False), states.astype(np.int64, copy=False), N)
        self.groups, self.blocks = _cut(start)
        self.states = start[:: self.L]
        """First item of each state; (N + 1,)."""

    @cached_property
    def quads(self) -> tuple[np.ndarray, np.ndarray]:
        """Quads `first[b L + j]` to the next belong to block b and action j; with them, the quads as words.

        A quad with fewer than four items has zeros in their place. Made when the first gradient asks for it.
        """
        first = np.empty((len(self.blocks) - 1) * self.L + 1, np.int64)
        words = np.zeros(self.n * self.L * self.L, np.uint64)
        used = _list_quads(self.blocks, self.actions, self.d_g, first, words)
        return first, words[:used].copy()


def prepare(split: Split, N: int, d_g: int) -> Plan:
    """The plan of a split, made once and kept with it."""
    plan = split.prepared.get("fused")
    if plan is None or (plan.N, plan.d_g) != (N, d_g):
        plan = split.prepared["fused"] = Plan(split.actions, split.states, N, d_g)
    return plan


@compiled()
def _sort(actions, states, N):  # type: ignore[no-untyped-def]
    """Counting sort of items (n, t) by s_t L + t: first item of each group, actions, targets."""
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


def _cut(start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cut groups into as few blocks as hold them, of sizes that differ by one at most: (first block of each group, blocks)."""
    size = np.diff(start)
    number = -(-size // BLOCK)
    groups = np.concatenate([[0], np.cumsum(number)])
    group = np.repeat(np.arange(len(size)), number)
    block = np.arange(groups[-1]) - groups[group]
    return groups, np.append(start[group] + size[group] * block // number[group], start[-1])


@compiled()
def _list_quads(blocks, actions, d_g, first, quads):  # type: ignore[no-untyped-def]
    """Fill `first` and `quads`, all zeros, in the order of the quads' first items; returns the number of quads.

    Neighbouring quads so have different actions: no sum is read back right after it was written. No branch depends on the data.
    """
    L = actions.shape[1]
    quad, filled = np.zeros(d_g, np.int64), np.zeros(d_g, np.uint64)
    used = 0
    for b in range(len(blocks) - 1):
        begin, end = blocks[b], blocks[b + 1]
        for j in range(L):
            first[b * L + j] = used
            for i in range(end - begin):
                a = peek(actions, (begin + i) * L + j)
                place = peek(filled, a) % np.uint64(ITEMS)
                q = used if place == 0 else peek(quad, a)
                used += place == 0
                poke(quad, a, q)
                poke(filled, a, peek(filled, a) + np.uint64(1))
                packed = np.uint64(i + 1) << (place * np.uint64(ITEM_BITS)) | np.uint64(a) << np.uint64(ACTION_SHIFT)
                poke(quads, q, peek(quads, q) | packed)
            for q in range(first[b * L + j], used):
                poke(filled, quads[q] >> np.uint64(ACTION_SHIFT), np.uint64(0))
    first[-1] = used
    return used
