"""Keys and queries alone, under a force on pi that is known beforehand: every step of descent, or the flow.

In all kernels w = (w_q, w_k) and everything is float64. The gradient in pi at epoch k is Newton's polynomial of `table` (q, L, L)
and `nodes` (q,) at k, plus `hessian` (L, L, L) times pi: d[t, j] = poly(k)[t, j] + sum_i hessian[t, j, i] pi[t, i]. `cos`, `sin`
(2L-1, d_h/2) and `pairs` (L, L) are those of RoPE: scores depend on 2L-1 offsets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..gradients.compiling import compiled

FAST = {"contract", "reassoc", "nsz", "arcp"}


class Path(NamedTuple):
    """The force on pi along a step, and the constants of the way from keys and queries to pi."""

    nodes: np.ndarray
    table: np.ndarray
    hessian: np.ndarray
    cos: np.ndarray
    sin: np.ndarray
    pairs: np.ndarray
    decay: float


@compiled(fastmath=FAST)
def attention_steps(w, path, start, epochs, eta):  # type: ignore[no-untyped-def]
    """Keys and queries after `epochs` steps of gradient descent from epoch `start`."""
    w, f, work = w.copy(), np.empty_like(w), _workspace(path)
    for k in range(start, start + epochs):
        _force(w, float(k), path, work, f)
        for i in range(len(w)):
            w[i] += eta * f[i]
    return w


@compiled(fastmath=FAST)
def attention_flow(w, path, start, epochs, eta, tolerance):  # type: ignore[no-untyped-def]
    """Keys and queries after the flow dw/dk = eta f over `epochs` from `start`: Dormand and Prince's 5(4) pair.

    `tolerance` bounds the root mean square of a step's error. What does not succeed in 10,000 steps is not a number.
    """
    stages, work = np.empty((7, len(w))), _workspace(path)
    w, trial = w.copy(), np.empty_like(w)
    k, end, h = start, start + epochs, min(1.0, epochs)
    _force(w, k, path, work, stages[0])
    for _ in range(10_000):
        h = min(h, end - k)
        for s in range(1, 7):
            for i in range(len(w)):
                total = 0.0
                for j in range(s):
                    total += A[s, j] * stages[j, i]
                trial[i] = w[i] + h * eta * total
            _force(trial, k + C[s] * h, path, work, stages[s])
        square = 0.0
        for i in range(len(w)):
            total = 0.0
            for s in range(7):
                total += E[s] * stages[s, i]
            square += (h * eta * total) ** 2
        error = np.sqrt(square / len(w)) / tolerance
        if error <= 1.0:
            k += h
            w[:] = trial
            stages[0] = stages[6]
            if k >= end:
                return w
        h *= min(5.0, max(0.2, 0.9 * (error + 1e-12) ** -0.2)) if error < np.inf else 0.1
    return np.full_like(w, np.nan)


# Dormand and Prince's coefficients: stages, times, and the difference of the two orders
A = np.array(
    [
        [0, 0, 0, 0, 0, 0],
        [1 / 5, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ]
)
C = np.array([0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
E = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])


@compiled()
def _workspace(path):  # type: ignore[no-untyped-def]
    offsets, planes = path.cos.shape
    L = path.pairs.shape[0]
    return np.empty((L, L)), np.empty(L), np.empty(offsets), np.empty(offsets), np.empty(planes), np.empty(planes)


@compiled(fastmath=FAST)
def _force(w, k, path, work, f):  # type: ignore[no-untyped-def]
    """Minus the gradient of loss and decay at epoch k, into f."""
    nodes, table, hessian, cos, sin, pairs, decay = path
    d, pi, score, d_score, dot, cross = work
    q, L, _ = table.shape
    offsets, planes = cos.shape
    half, scale = 2 * planes, 1 / np.sqrt(2 * planes)
    d[:] = table[0]
    product = 1.0
    for j in range(1, q):
        product *= k - nodes[j - 1]
        for t in range(L):
            for i in range(L):
                d[t, i] += product * table[j, t, i]
    for n in range(planes):
        q0, q1, k0, k1 = w[2 * n], w[2 * n + 1], w[half + 2 * n], w[half + 2 * n + 1]
        dot[n] = q0 * k0 + q1 * k1
        cross[n] = q1 * k0 - q0 * k1
    for i in range(offsets):
        total = 0.0
        for n in range(planes):
            total += cos[i, n] * dot[n] + sin[i, n] * cross[n]
        score[i] = total * scale
        d_score[i] = 0.0
    for t in range(L):
        _softmax(score, pairs[t], pi)
        mean = 0.0
        for j in range(L):
            for i in range(L):
                d[t, j] += hessian[t, j, i] * pi[i]
            mean += pi[j] * d[t, j]
        for j in range(L):
            d_score[pairs[t, j]] += pi[j] * (d[t, j] - mean) * scale
    dot[:] = 0.0
    cross[:] = 0.0
    for i in range(offsets):
        for n in range(planes):
            dot[n] += d_score[i] * cos[i, n]
            cross[n] += d_score[i] * sin[i, n]
    for n in range(planes):
        q0, q1, k0, k1 = w[2 * n], w[2 * n + 1], w[half + 2 * n], w[half + 2 * n + 1]
        f[2 * n] = -(dot[n] * k0 - cross[n] * k1 + decay * q0)
        f[2 * n + 1] = -(dot[n] * k1 + cross[n] * k0 + decay * q1)
        f[half + 2 * n] = -(dot[n] * q0 + cross[n] * q1 + decay * k0)
        f[half + 2 * n + 1] = -(dot[n] * q1 - cross[n] * q0 + decay * k1)


@compiled(fastmath=FAST)
def _softmax(score, pairs, pi):  # type: ignore[no-untyped-def]
    highest = score[pairs[0]]
    for j in range(1, len(pi)):
        highest = max(highest, score[pairs[j]])
    total = 0.0
    for j in range(len(pi)):
        pi[j] = np.exp(score[pairs[j]] - highest)
        total += pi[j]
    for j in range(len(pi)):
        pi[j] /= total
