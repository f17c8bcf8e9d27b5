"""Steps of gradient descent of keys and queries alone, one epoch at a time, under a force on pi that is known beforehand."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz", "arcp"})
def attention_steps(  # type: ignore[no-untyped-def]
    w, table, nodes, hessian, start, epochs, eta, decay, cos, sin, pairs
):  # fmt: skip
    """Keys and queries w = (w_q, w_k) after `epochs` steps from epoch `start`; everything float64.

    The gradient in pi at epoch k and attention pi is Newton's polynomial of `table` (q, L, L) and `nodes` (q,) at k, plus
    `hessian` (L, L, L) times pi: d[t, j] = poly(k)[t, j] + sum_i hessian[t, j, i] pi[t, i]. `cos`, `sin` (2L-1, d_h/2) and
    `pairs` (L, L) are those of RoPE: scores depend on 2L-1 offsets.
    """
    q, L, _ = table.shape
    offsets, planes = cos.shape
    w, half, scale = w.copy(), 2 * planes, 1 / np.sqrt(2 * planes)
    d, pi = np.empty((L, L)), np.empty(L)
    score, d_score = np.empty(offsets), np.empty(offsets)
    dot, cross = np.empty(planes), np.empty(planes)
    for k in range(start, start + epochs):
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
            highest = score[pairs[t, 0]]
            for j in range(1, L):
                highest = max(highest, score[pairs[t, j]])
            total = 0.0
            for j in range(L):
                pi[j] = np.exp(score[pairs[t, j]] - highest)
                total += pi[j]
            mean = 0.0
            for j in range(L):
                pi[j] /= total
            for j in range(L):
                bend = 0.0
                for i in range(L):
                    bend += hessian[t, j, i] * pi[i]
                d[t, j] += bend
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
            w[2 * n] -= eta * (dot[n] * k0 - cross[n] * k1 + decay * q0)
            w[2 * n + 1] -= eta * (dot[n] * k1 + cross[n] * k0 + decay * q1)
            w[half + 2 * n] -= eta * (dot[n] * q0 + cross[n] * q1 + decay * k0)
            w[half + 2 * n + 1] -= eta * (dot[n] * q1 - cross[n] * q0 + decay * k1)
    return w
