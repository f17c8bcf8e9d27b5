"""The fused kernel: loss and gradient of a batch with respect to pi and m, in one pass over the items.

For an item (n, t) in state s, with V[a] = m[a, :, s],

    z = sum_j pi[t, j] V[a_j],  p = softmax(z),  residual d = p - onehot(target),
    dm[a, :, s] += pi[t, j] d  and  dpi[t, j] += d . V[a_j]   for each j with a = a_j.

Items come sorted by (state, position), so V and the sums over it stay in the first-level cache. Every state is the work of one
thread and sums run in a fixed order: results do not depend on the number of threads, to the last bit. Logits are kept in bits,
units of ln 2, in which exponential and logarithm are cheapest.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .compiling import compiled
from .evaluate import LOWEST, copy_state, mix, rollout, statistics
from .plan import ACTION_SHIFT, BLOCK, ITEM_BITS, Plan, prepare
from .rows import (
    Rows,
    convert,
    exp2,
    fma,
    fold,
    highest,
    keep,
    larger,
    load,
    log2,
    peek,
    poke,
    splat,
    store,
    sum_each,
    total,
    zeros,
)
from .statistics import Statistics
from .threads import each_share

__all__ = ["Plan", "Statistics", "loss_and_gradient", "prepare", "rollout", "statistics"]

# largest modulus of logits, in bits, of which no maximum need be subtracted: 2^z, sums of 4096 and ratios are normal numbers
SAFE = 57.0
# quads for each action after which sums in single precision are added to those in double: what they lose stays near 1e-6
SHORT = 256


def loss_and_gradient(
    pi: np.ndarray, m: np.ndarray, plan: Plan, threads: int | None = None
) -> tuple[float, np.ndarray, np.ndarray]:
    """Mean cross-entropy of a split, its gradient in pi (L, L, float64) and in m (d_g, N, N, the dtype of m).

    The loss is not a number where a weight is not finite.
    """
    m = np.ascontiguousarray(m)
    weights = np.ascontiguousarray(pi, m.dtype)
    bits = np.ascontiguousarray(pi / np.log(2), m.dtype)
    loss, d_pi, d_m = np.zeros(plan.N), np.zeros((plan.N, plan.L, plan.L)), np.empty_like(m)
    rows = Rows(m.dtype, plan.N)
    wide = Rows(np.float64, plan.N, rows.lanes)
    lanes = Rows(m.dtype, rows.lanes, rows.lanes)
    items = plan.n * plan.L
    quads = plan.quads

    def work(first: int, last: int) -> None:
        table, sums, totals, block = rows.table(plan.d_g), rows.table(plan.d_g), wide.table(plan.d_g), rows.table(BLOCK + 1)
        partial, scale, correct = lanes.table(rows.lanes), lanes.table(BLOCK // rows.lanes + 1), lanes.table(1)
        partial[:], correct[:] = 1, 1  # also in lanes without an item, whose reciprocals and logarithms nobody reads
        _gradient(
            rows, wide, lanes, first, last, weights, bits, m, plan.groups, plan.blocks, plan.actions, plan.targets, *quads,
            rows.mask(), lanes.masks(), table, sums, totals, block, partial, scale, correct, loss, d_pi, d_m,
        )  # fmt: skip

    each_share(work, plan.states, threads)
    return float(np.log(2) * loss.sum() / items), d_pi.sum(axis=0) / items, d_m


@compiled()
def _gradient(  # type: ignore[no-untyped-def]
    rows, wide, lanes, first, last, pi, bits, m, groups, blocks, actions, targets, quad_first, quads,
    mask, lane_masks, table, sums, totals, block, partial, scale, correct, loss, d_pi, d_m,
):  # fmt: skip
    """States `first` to `last`: their sums of the loss in bits, their parts of dpi, and their columns of dm."""
    L, enough = pi.shape[0], SHORT * m.shape[0]
    for s in range(first, last):
        bound = copy_state(m, s, table)
        shifted = not bound * _largest_weight(bits) < SAFE
        _clear(rows, sums)
        _clear(wide, totals)
        added = 0
        for t in range(L):
            for b in range(groups[s * L + t], groups[s * L + t + 1]):
                begin, count = blocks[b], blocks[b + 1] - blocks[b]
                loss[s] += _exponentials(
                    rows, lanes, bits, t, actions, targets, begin, count, shifted, mask, table, block, partial, scale
                )
                loss[s] += _residuals(rows, lanes, targets, begin, count, lane_masks, block, scale, correct)
                _pull_back(rows, pi, t, quad_first, quads, b * L, table, sums, block, d_pi[s])
                added += quad_first[(b + 1) * L] - quad_first[b * L]
                if added > enough:
                    _settle(rows, wide, sums, totals)
                    added = 0
        _settle(rows, wide, sums, totals)
        if not np.isfinite(bound):
            loss[s] = np.nan
        for a in range(m.shape[0]):
            for r in range(m.shape[1]):
                d_m[a, r, s] = totals[a, r] * (1.0 / len(targets))


@compiled()
def _exponentials(rows, lanes, pi, t, actions, targets, begin, count, shifted, mask, table, block, partial, scale):  # type: ignore[no-untyped-def]
    """2^z of a block's items in rows 1, 2, ... of `block`, and 1 / sum of each row in `scale`.

    What follows a row's sum is done for as many items at once as a vector has lanes. Logits below LOWEST are raised to it; what
    that takes from the loss is returned.
    """
    n_lanes, width = partial.shape[0], block.shape[1]
    valid = load(rows, mask, 0)
    missed = 0.0
    for group in range(0, count, n_lanes):
        for k in range(min(n_lanes, count - group)):
            i = group + k
            z = mix(rows, table, pi, t, actions, begin + i)
            if shifted:
                z = z - splat(rows, highest(z))
                store(block, i + 1, z)
                missed += max(LOWEST - peek(block, (i + 1) * width + peek(targets, begin + i)), 0.0)
                z = larger(splat(rows, LOWEST), z)
            e = keep(exp2(z), valid)
            store(block, i + 1, e)
            store(partial, k, fold(lanes, e))
        store(scale, group // n_lanes, splat(lanes, 1.0) / sum_each(lanes, partial))
    return missed


@compiled()
def _residuals(rows, lanes, targets, begin, count, lane_masks, block, scale, correct):  # type: ignore[no-untyped-def]
    """Turn exponentials into residuals p - onehot; returns the sum of -log2 p of the targets."""
    n_lanes, width = correct.shape[1], block.shape[1]
    loss = 0.0
    for group in range(0, count, n_lanes):
        size = min(n_lanes, count - group)
        for k in range(size):
            i = group + k
            store(block, i + 1, load(rows, block, i + 1) * splat(rows, peek(scale, i)))
            place = (i + 1) * width + peek(targets, begin + i)
            p = peek(block, place)
            poke(correct, k, p)
            poke(block, place, p - 1.0)
        loss -= total(keep(log2(load(lanes, correct, 0)), load(lanes, lane_masks, size)))
    return loss


@compiled()
def _pull_back(rows, pi, t, quad_first, quads, row, table, sums, block, d_pi):  # type: ignore[no-untyped-def]
    """Add a block's residuals d into sums[a] += pi[t, j] d and d_pi[t, j] += d . V[a], four items of equal action at a time."""
    for j in range(pi.shape[0]):
        weight = splat(rows, pi[t, j])
        products = zeros(rows)
        for q in range(quad_first[row + j], quad_first[row + j + 1]):
            quad = peek(quads, q)
            d = (_item(rows, block, quad, 0) + _item(rows, block, quad, 1)) + (
                _item(rows, block, quad, 2) + _item(rows, block, quad, 3)
            )
            a = quad >> np.uint64(ACTION_SHIFT)
            store(sums, a, fma(weight, d, load(rows, sums, a)))
            products = fma(d, load(rows, table, a), products)
        d_pi[t, j] += total(products)


@njit(error_model="numpy", forceinline=True)
def _item(rows, block, quad, k):  # type: ignore[no-untyped-def]
    return load(rows, block, (quad >> np.uint64(ITEM_BITS * k)) & np.uint64((1 << ITEM_BITS) - 1))


@compiled()
def _largest_weight(pi):  # type: ignore[no-untyped-def]
    """Largest row sum of |pi|, so that |z| is at most this times the largest |m|; NaN where there is one."""
    out = 0.0
    for t in range(pi.shape[0]):
        row = 0.0
        for j in range(pi.shape[1]):
            row += abs(pi[t, j])
        if not row <= out:
            out = row
    return out


@compiled()
def _settle(rows, wide, sums, totals):  # type: ignore[no-untyped-def]
    """Add `sums` to `totals`, and begin anew."""
    for a in range(sums.shape[0]):
        store(totals, a, load(wide, totals, a) + convert(wide, load(rows, sums, a)))
        store(sums, a, zeros(rows))


@compiled()
def _clear(rows, table):  # type: ignore[no-untyped-def]
    for a in range(table.shape[0]):
        store(table, a, zeros(rows))
