"""RoPE attention in closed form: pi from the weights, and the pull-back of d/dpi to the weights.

With unit embeddings the attention score of predictor position t and action position j depends on the token offset
D = (j+1) - (L+1+t) = j - t - L alone, so there are 2L-1 distinct scores and pi (L, L) is the same for every sequence:

    l[D] = sum_n [ cos(w_n D) (q0 k0 + q1 k1) + sin(w_n D) (q1 k0 - q0 k1) ] / sqrt(d_h),

q0, q1 = w_q[2n], w_q[2n+1] and likewise k0, k1: `w_q^T Omega(D) w_k / sqrt(d_h)` of the paper.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .config import Config


def frequencies(cfg: Config) -> np.ndarray:
    """RoPE frequencies w_n, n = 0..d_h/2-1, by the config's `rope_law`; shape (d_h/2,)."""
    n = np.arange(cfg.d_h // 2)
    if cfg.rope_law == "linear":
        return 2 * np.pi * (n + 1) / cfg.d_h
    power = cfg.rope_theta ** (-2.0 * n / cfg.d_h)
    return 2 * np.pi * power if cfg.rope_law == "power-2pi" else power


def attention(cfg: Config, w_q: np.ndarray, w_k: np.ndarray) -> np.ndarray:
    """Attention pi[t, j] over the L action positions, rows sum to 1; float64, shape (L, L)."""
    return softmax(scores(w_q, w_k, frequencies(cfg), cfg.L))


def scores(w_q: np.ndarray, w_k: np.ndarray, omega: np.ndarray, L: int) -> np.ndarray:
    """Attention scores l[t, j] before the softmax; shape (L, L)."""
    cos, sin, pairs = rotations(omega, L)
    q, k = _planes(w_q), _planes(w_k)
    dot = q[:, 0] * k[:, 0] + q[:, 1] * k[:, 1]
    cross = q[:, 1] * k[:, 0] - q[:, 0] * k[:, 1]
    return ((cos @ dot + sin @ cross) / np.sqrt(len(w_q)))[pairs]


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def pull_back(cfg: Config, w_q: np.ndarray, w_k: np.ndarray, pi: np.ndarray, d_pi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Carry a gradient with respect to pi (L, L) back to w_q and w_k; both float64, shape (d_h,)."""
    with np.errstate(invalid="ignore"):  # where weights are not finite, and the loss says so
        d_pi = from_largest(pi, d_pi)
        d_l = pi * (d_pi - (pi * d_pi).sum(axis=-1, keepdims=True))
    return scores_pull_back(w_q, w_k, frequencies(cfg), d_l)


def from_largest(pi: np.ndarray, d_pi: np.ndarray) -> np.ndarray:
    """d_pi less its value where a row of pi is largest: the same to the softmax, and nothing cancels where attention is sharp."""
    return d_pi - np.take_along_axis(d_pi, pi.argmax(axis=-1)[:, None], axis=-1)


def scores_pull_back(w_q: np.ndarray, w_k: np.ndarray, omega: np.ndarray, d_l: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Carry a gradient with respect to the scores l (L, L) back to w_q and w_k; both shape (d_h,)."""
    L = len(d_l)
    cos, sin, pairs = rotations(omega, L)
    by_offset = np.zeros(2 * L - 1)
    np.add.at(by_offset, pairs, d_l)
    by_offset /= np.sqrt(len(w_q))
    d_dot, d_cross = by_offset @ cos, by_offset @ sin
    q, k = _planes(w_q), _planes(w_k)
    d_q = np.stack([d_dot * k[:, 0] - d_cross * k[:, 1], d_dot * k[:, 1] + d_cross * k[:, 0]], axis=1)
    d_k = np.stack([d_dot * q[:, 0] + d_cross * q[:, 1], d_dot * q[:, 1] - d_cross * q[:, 0]], axis=1)
    return d_q.ravel(), d_k.ravel()


def _planes(w: np.ndarray) -> np.ndarray:
    return np.asarray(w, dtype=np.float64).reshape(-1, 2)


def rotations(omega: np.ndarray, L: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cos and sin of w_n D for the offsets D = -(2L-1)..-1, and each pair's (t, j) index into them; read-only."""
    return _rotations(np.asarray(omega, np.float64).tobytes(), L)


@lru_cache(maxsize=16)
def _rotations(omega: bytes, L: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kept from call to call: a run asks for the same ones thousands of times."""
    angle = np.arange(-(2 * L - 1), 0)[:, None] * np.frombuffer(omega)[None, :]
    t, j = np.meshgrid(np.arange(L), np.arange(L), indexing="ij")
    found = np.cos(angle), np.sin(angle), (j - t - L) + (2 * L - 1)
    for array in found:
        array.flags.writeable = False
    return found
