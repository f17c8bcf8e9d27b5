"""Forward kernels: loss, accuracy and logit statistics of a split in one pass, and autoregressive rollouts."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .compiling import compiled
from .plan import Plan
from .rows import Rows, convert, exp2, first_equal, fma, highest, keep, larger, load, peek, splat, store, total, zeros
from .statistics import Statistics
from .threads import each_share

# the least logit, in bits below the largest: nothing beside 1, and 2^LOWEST divided by N is a normal number still
LOWEST = -100.0
PER_BIT = 1 / math.log(2)
# rollouts side by side
TOGETHER = 32
# the logarithm of sums that are multiplied up to about here is taken of their product
FULL = 2.0**900


def statistics(pi: np.ndarray, m: np.ndarray, plan: Plan, threads: int | None = None) -> Statistics:
    """Loss, next-token accuracy, and mean and variance of correct and other logits over a split's samples and positions.

    Sums are float64, taken about each state's mean weight, and the states' variances are merged with their means.
    """
    m, weights = np.ascontiguousarray(m), np.ascontiguousarray(pi, m.dtype)
    rows = Rows(m.dtype, plan.N)
    wide = Rows(np.float64, plan.N, rows.lanes)
    out = np.zeros((plan.N, 7))

    def work(first: int, last: int) -> None:
        tables = rows.table(plan.d_g), rows.table(1)
        _statistics(
            rows, wide, first, last, weights, m, plan.groups, plan.blocks, plan.actions, plan.targets, wide.mask(), *tables, out
        )

    each_share(work, plan.states, threads)
    items = plan.n * plan.L
    per_state = np.diff(plan.states)
    pivot, loss, correct, *sums = out.T
    mu_k, var_k = _merge(per_state, pivot, *sums[:2])
    mu_o, var_o = _merge(per_state * (plan.N - 1), pivot, *sums[2:])
    return Statistics(float(loss.sum() / items), float(correct.sum() / items), mu_k, var_k, mu_o, var_o)


def _merge(count: np.ndarray, pivot: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Mean and variance of all groups together, from their sums of x - pivot and of its square."""
    count, pivot, first, second = (x[count > 0] for x in (count, pivot, first, second))
    mean = pivot + first / count
    overall = np.average(mean, weights=count)
    within = np.maximum(second - first**2 / count, 0.0)
    return float(overall), float((within + count * (mean - overall) ** 2).sum() / count.sum())


def rollout(pi: np.ndarray, m: np.ndarray, actions: np.ndarray, s0: np.ndarray, threads: int | None = None) -> np.ndarray:
    """Generated states (n, L+1): s0, then the token of the largest logit fed back, the first of equal ones."""
    m, weights = np.ascontiguousarray(m), np.ascontiguousarray(pi, m.dtype)
    d_g, N = m.shape[:2]
    rows = Rows(m.dtype, N)
    table = rows.table(N * d_g)
    copy_states(m, table)
    states = np.empty((len(actions), actions.shape[1] + 1), np.int64)
    states[:, 0] = s0
    actions = np.ascontiguousarray(actions)
    each_share(
        lambda first, last: _rollout(rows, first, last, d_g, weights, table, actions, states),
        np.arange(len(actions) + 1) * actions.shape[1],
        threads,
    )
    return states


@compiled()
def copy_state(m, s, table):  # type: ignore[no-untyped-def]
    """table[a] = m[a, :, s]; returns the largest modulus, not finite where a weight is not.

    Padding repeats the first number: it then can neither raise the maximum nor overflow, and is dropped after the exponential.
    """
    bound = 0.0
    wrong = 0.0
    for a in range(m.shape[0]):
        for r in range(m.shape[1]):
            x = m[a, r, s]
            table[a, r] = x
            bound = max(bound, abs(x))
            wrong += x - x
        for r in range(m.shape[1], table.shape[1]):
            table[a, r] = m[a, 0, s]
    return bound + wrong


@compiled()
def copy_states(m, table):  # type: ignore[no-untyped-def]
    """table[s d_g + a] = m[a, :, s]."""
    d_g = m.shape[0]
    for s in range(m.shape[2]):
        copy_state(m, s, table[s * d_g : (s + 1) * d_g])


@njit(error_model="numpy", forceinline=True)
def mix(rows, table, pi, t, actions, item):  # type: ignore[no-untyped-def]
    """Logits z = sum_j pi[t, j] V[a_j] of an item."""
    L = pi.shape[0]
    z = zeros(rows)
    for j in range(L):
        z = fma(splat(rows, peek(pi, t * L + j)), load(rows, table, peek(actions, item * L + j)), z)
    return z


@compiled()
def _statistics(rows, wide, first, last, pi, m, groups, blocks, actions, targets, mask, table, row, out):  # type: ignore[no-untyped-def]
    """For states `first` to `last`: pivot, loss, correct answers, and sums about the pivot: correct, squared, others, squared."""
    L = pi.shape[0]
    valid = load(wide, mask, 0)
    for s in range(first, last):
        bound = copy_state(m, s, table)
        pivot = np.mean(m[:, :, s]) * pi[0].sum()
        loss, correct, k_1, k_2 = 0.0, 0, 0.0, 0.0
        product = 1.0
        all_1, all_2 = zeros(wide), zeros(wide)
        for t in range(L):
            for i in range(blocks[groups[s * L + t]], blocks[groups[s * L + t + 1]]):
                z = mix(rows, table, pi, t, actions, i)
                store(row, 0, z)
                z_k = row[0, targets[i]]
                top = highest(z)
                correct += first_equal(z, top) == targets[i]
                e = exp2(larger(splat(rows, LOWEST), (z - splat(rows, top)) * splat(rows, PER_BIT)))
                product *= total(keep(convert(wide, e), valid))
                if not product < FULL:
                    loss += math.log(product)
                    product = 1.0
                loss -= np.float64(z_k) - np.float64(top)
                from_pivot = keep(convert(wide, z) - splat(wide, pivot), valid)
                all_1 = all_1 + from_pivot
                all_2 = fma(from_pivot, from_pivot, all_2)
                x_k = np.float64(z_k) - pivot  # both of the same float32 number: what is left of a large mean must cancel
                k_1 += x_k
                k_2 += x_k * x_k
        out[s, 0] = pivot
        loss += math.log(product)
        out[s, 1] = loss if np.isfinite(bound) else np.nan
        out[s, 2] = correct
        out[s, 3] = k_1
        out[s, 4] = k_2
        out[s, 5] = total(all_1) - k_1
        out[s, 6] = total(all_2) - k_2


@compiled()
def _rollout(rows, first, last, d_g, pi, table, actions, states):  # type: ignore[no-untyped-def]
    """Sequences `first` to `last`, some side by side: each step waits for the one before, but not for its neighbours."""
    L = pi.shape[0]
    for begin in range(first, last, TOGETHER):
        for t in range(L):
            for n in range(begin, min(begin + TOGETHER, last)):
                base = states[n, t] * d_g
                z = zeros(rows)
                for j in range(L):
                    z = fma(splat(rows, peek(pi, t * L + j)), load(rows, table, base + peek(actions, n * L + j)), z)
                states[n, t + 1] = first_equal(z, highest(z))
