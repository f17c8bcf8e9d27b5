"""The fused kernel: loss and gradient of a batch with respect to pi and m, in one pass over the items.

For an item (n, t) in state s, with V[a] = m[a, :, s],

    z = sum_j pi[t, j] V[a_j],  p = softmax(z),  residual d = p - onehot(target),
    dm[a, :, s] += pi[t, j] d  and  dpi[t, j] += d . V[a_j]   for each j with a = a_j.

Items come sorted by (state, position), so V and the sums over it stay in the first-level cache. Every state is the work of one
thread and sums run in a fixed order: results do not depend on the number of threads, to the last bit.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .evaluate import LOWEST, copy_state, rollout, statistics
from .plan import BLOCK, Plan, prepare
from .rows import Rows, exp2, fma, fold, highest, larger, load, log2, peek, poke, splat, store, sum_each, total, zeros
from .statistics import Statistics
from .threads import each_share

__all__ = ["Plan", "Statistics", "loss_and_gradient", "prepare", "rollout", "statistics"]

# bound on |z| / ln 2 up to which 2^z, sums of 128 of them and ratios are normal in single precision: no maximum is subtracted
SAFE = 58.0


def loss_and_gradient(
    pi: np.ndarray, m: np.ndarray, plan: Plan, threads: int | None = None
) -> tuple[float, np.ndarray, np.ndarray]:
    """Mean cross-entropy of a split, its gradient in pi (L, L, float64) and in m (d_g, N, N, the dtype of m).

    The loss is not a number where a weight is not finite.
    """
    rows = Rows(m.dtype, plan.N)
    m = np.ascontiguousarray(m)
    weights = np.ascontiguousarray(pi, m.dtype)
    bits = np.ascontiguousarray(pi / np.log(2), m.dtype)
    loss, d_pi, d_m = np.zeros(plan.N), np.zeros((plan.N, plan.L, plan.L)), np.empty_like(m)
    quads = plan.quads

    def work(first: int, last: int) -> None:
        lanes = Rows(m.dtype, rows.lanes, rows.lanes)
        valid = rows.table(1)
        valid[0, : plan.N] = 1
        firsts = lanes.table(rows.lanes + 1)
        firsts[:] = np.arange(rows.lanes) < np.arange(rows.lanes + 1)[:, None]
        partial = lanes.table(rows.lanes)
        partial[:] = 1
        _gradient(
            rows, lanes, first, last, weights, bits, m, plan.start, plan.first_block, plan.actions, plan.targets, *quads,
            valid, firsts, rows.table(plan.d_g), rows.table(plan.d_g), rows.table(BLOCK + 1), partial, lanes.table(2), loss, d_pi, d_m,
        )  # fmt: skip

    each_share(work, plan.start[:: plan.L], threads)
    return float(np.log(2) * loss.sum() / (plan.n * plan.L)), d_pi.sum(axis=0) / (plan.n * plan.L), d_m


@njit(cache=True, nogil=True, error_model="numpy")
def _gradient(  # type: ignore[no-untyped-def]
    rows, lanes, first, last, pi, bits, m, start, first_block, actions, targets, quad_first, quad_items, quad_actions,
    valid, firsts, table, sums, block, partial, correct, loss, d_pi, d_m,
):  # fmt: skip
    """States `first` to `last`: their sums of the loss, their parts of dpi, and their columns of dm."""
    L = pi.shape[0]
    for s in range(first, last):
        bound = copy_state(m, s, table)
        shifted = not bound * _largest_weight(bits) < SAFE
        _clear(rows, sums)
        for t in range(L):
            group = s * L + t
            b = first_block[group]
            for begin in range(start[group], start[group + 1], BLOCK):
                count = min(BLOCK, start[group + 1] - begin)
                loss[s] += _forward(
                    rows, lanes, bits, t, actions, targets, begin, count, shifted, valid, firsts, table, block, partial, correct
                )
                _backward(rows, pi, t, quad_first, quad_items, quad_actions, b * L, table, sums, block, d_pi[s])
                b += 1
        if not np.isfinite(bound):
            loss[s] = np.nan
        scale = m.dtype.type(1.0 / len(targets))
        for a in range(m.shape[0]):
            for r in range(m.shape[1]):
                d_m[a, r, s] = sums[a, r] * scale


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(  # type: ignore[no-untyped-def]
    rows, lanes, pi, t, actions, targets, begin, count, shifted, valid, firsts, table, block, partial, correct
):
    """Residuals p - onehot of a block's items, into `block`; returns the sum of their losses, in bits.

    Logits come in units of ln 2. What a softmax does once an item, the sum over the row, the reciprocal and the logarithm, is
    done for as many items at once as a vector has lanes.
    """
    L = pi.shape[0]
    width, lanes_per_row = block.shape[1], partial.shape[0]
    keep = load(rows, valid, 0)
    loss = 0.0
    for group in range(0, count, lanes_per_row):
        size = min(lanes_per_row, count - group)
        for k in range(size):
            item = begin + group + k
            z = zeros(rows)
            for j in range(L):
                z = fma(splat(rows, peek(pi, t * L + j)), load(rows, table, peek(actions, item * L + j)), z)
            if shifted:
                z = z - splat(rows, highest(z))
            store(block, group + k, z)
            poke(correct, k, peek(block, (group + k) * width + peek(targets, item)))
            if shifted:
                z = larger(splat(rows, LOWEST), z)
            e = exp2(z) * keep
            store(block, group + k, e)
            store(partial, k, fold(lanes, e))
        sums = sum_each(lanes, partial)
        loss += total((log2(sums) - load(lanes, correct, 0)) * load(lanes, firsts, size))
        store(correct, 1, splat(lanes, 1.0) / sums)
        for k in range(size):
            store(block, group + k, load(rows, block, group + k) * splat(rows, peek(correct, lanes_per_row + k)))
            place = (group + k) * width + peek(targets, begin + group + k)
            poke(block, place, peek(block, place) - 1.0)
    return loss


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(rows, pi, t, quad_first, quad_items, quad_actions, row, table, sums, block, d_pi):  # type: ignore[no-untyped-def]
    """Add a block's residuals d into sums[a] += pi[t, j] d and d_pi[t, j] += d . V[a], four items of equal action at a time."""
    for j in range(pi.shape[0]):
        weight = splat(rows, pi[t, j])
        products = zeros(rows)
        for q in range(quad_first[row + j], quad_first[row + j + 1]):
            d = (load(rows, block, peek(quad_items, 4 * q)) + load(rows, block, peek(quad_items, 4 * q + 1))) + (
                load(rows, block, peek(quad_items, 4 * q + 2)) + load(rows, block, peek(quad_items, 4 * q + 3))
            )
            a = peek(quad_actions, q)
            store(sums, a, fma(weight, d, load(rows, sums, a)))
            products = fma(d, load(rows, table, a), products)
        d_pi[t, j] += total(products)


@njit(cache=True, nogil=True, error_model="numpy")
def _largest_weight(pi):  # type: ignore[no-untyped-def]
    """Largest row sum of |pi|, so that |z| is at most this times the largest |m|."""
    out = 0.0
    for t in range(pi.shape[0]):
        row = 0.0
        for j in range(pi.shape[1]):
            row += abs(pi[t, j])
        if not row <= out:
            out = row
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _clear(rows, table):  # type: ignore[no-untyped-def]
    for a in range(table.shape[0]):
        store(table, a, zeros(rows))
