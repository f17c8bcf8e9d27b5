"""How the force on attention bends with attention itself, after the column-resolved population theory."""

from __future__ import annotations

import numpy as np

from ..attention import softmax


def hessian(pi: np.ndarray, m: np.ndarray) -> np.ndarray:
    """The expected H[t, j, k] = d²loss / dpi[t, j] dpi[t, k] at attention pi and matrices m, for infinite data; (L, L, L).

    The action at position t is the right one, c, and those elsewhere are independent of it. With V_c = m[c, :, s], Vbar its mean
    over actions, P_c = softmax(A V_c + (1-A) Vbar), C_c = diag(P_c) - P_c P_c^T, and averages over actions c and states s,

        L H[t, t, t] = <V_c C_c V_c>,   L H[t, t, k] = <V_c C_c Vbar>,
        L H[t, j, k] = <Vbar C_c Vbar> + delta_jk <sum_r [P_c (1-P_c)]_r var_b [V_b]_r>   for j, k other than t.
    """
    L, A = len(pi), float(np.trace(pi)) / len(pi)
    m = m.astype(np.float64)
    mean = m.mean(axis=0, keepdims=True)
    P = softmax((A * m + (1 - A) * mean).swapaxes(1, 2)).swapaxes(1, 2)

    def covariance(u: np.ndarray, v: np.ndarray) -> float:
        return float((P * u * (v - (P * v).sum(axis=1, keepdims=True))).sum(axis=1).mean())

    H = np.full((L, L, L), covariance(mean, mean))
    H += np.eye(L) * ((P * (1 - P)).mean(axis=0) * m.var(axis=0)).sum(axis=0).mean()
    t = np.arange(L)
    H[t, t, :] = H[t, :, t] = covariance(m, mean)
    H[t, t, t] = covariance(m, m)
    return H / L
