"""Slow, obvious float64 oracles: every formula written out as the paper words it, against which the fast code is checked.

Nothing here shares code with the package but its containers (Config, Params, Split). Rotation matrices are built explicitly,
samples are looped over, and the gradient is the written-out chain rule, so a mistake would have to be made twice.
"""

from __future__ import annotations

import numpy as np

from cotflow.config import Config
from cotflow.params import Params
from cotflow.task import Split

# --- attention -----------------------------------------------------------------------------------------------------------------


def frequencies(cfg: Config) -> np.ndarray:
    """RoPE frequencies w_n, one plane at a time."""
    law = {
        "power-2pi": lambda n: 2 * np.pi * cfg.rope_theta ** (-2 * n / cfg.d_h),
        "power": lambda n: cfg.rope_theta ** (-2 * n / cfg.d_h),
        "linear": lambda n: 2 * np.pi * (n + 1) / cfg.d_h,
    }[cfg.rope_law]
    return np.array([law(n) for n in range(cfg.d_h // 2)])


def rotation(cfg: Config, position: int) -> np.ndarray:
    """The block rotation Omega(position), (d_h, d_h), each plane [[cos, -sin], [sin, cos]]."""
    omega = np.zeros((cfg.d_h, cfg.d_h))
    for n, w in enumerate(frequencies(cfg)):
        c, s = np.cos(w * position), np.sin(w * position)
        omega[2 * n : 2 * n + 2, 2 * n : 2 * n + 2] = [[c, -s], [s, c]]
    return omega


def scores(cfg: Config, w_q: np.ndarray, w_k: np.ndarray) -> np.ndarray:
    """RoPE_i(W_Q) . RoPE_j(W_K) / sqrt(d_h) for predictors i = L+1+t and actions j+1 (1-based); (L, L)."""
    score = np.zeros((cfg.L, cfg.L))
    for t in range(cfg.L):
        for j in range(cfg.L):
            q = rotation(cfg, cfg.L + 1 + t) @ np.float64(w_q)
            k = rotation(cfg, j + 1) @ np.float64(w_k)
            score[t, j] = q @ k / np.sqrt(cfg.d_h)
    return score


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis in float64."""
    x = np.asarray(x, dtype=np.float64)
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(cfg: Config, w_q: np.ndarray, w_k: np.ndarray) -> np.ndarray:
    """pi[t, j], (L, L)."""
    return softmax(scores(cfg, w_q, w_k))


def attention_pull_back(cfg: Config, w_q: np.ndarray, w_k: np.ndarray, d_pi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Chain rule through the full softmax Jacobian and the explicit rotations."""
    pi = attention(cfg, w_q, w_k)
    d_q, d_k = np.zeros(cfg.d_h), np.zeros(cfg.d_h)
    for t in range(cfg.L):
        jacobian = np.diag(pi[t]) - np.outer(pi[t], pi[t])
        d_l = jacobian @ d_pi[t]
        for j in range(cfg.L):
            relative = rotation(cfg, (j + 1) - (cfg.L + 1 + t))
            d_q += d_l[j] * relative @ np.float64(w_k) / np.sqrt(cfg.d_h)
            d_k += d_l[j] * relative.T @ np.float64(w_q) / np.sqrt(cfg.d_h)
    return d_q, d_k


# --- loss and gradient ---------------------------------------------------------------------------------------------------------


def logits(pi: np.ndarray, m: np.ndarray, split: Split) -> np.ndarray:
    """z[n, t] = sum_j pi[t, j] m[g_j] e_{s_t}, with the mixed matrix written out for each sample; (n, L, N)."""
    n, L = split.actions.shape
    pi, m = np.float64(pi), np.float64(m)
    z = np.zeros((n, L, m.shape[1]))
    for i in range(n):
        for t in range(L):
            mixed = sum(pi[t, j] * m[split.actions[i, j]] for j in range(L))
            z[i, t] = mixed @ np.eye(m.shape[1])[split.states[i, t]]
    return z


def cross_entropy(z: np.ndarray, split: Split) -> float:
    """Mean over samples and positions of -log softmax(z) at the next state."""
    top = z.max(-1)
    log_norm = top + np.log(np.exp(z - top[..., None]).sum(-1))
    return float((log_norm - _at(z, split.states[:, 1:])).mean())


def loss(cfg: Config, params: Params, split: Split) -> float:
    """The loss of paper Eq. (5)."""
    return cross_entropy(logits(attention(cfg, params.w_q, params.w_k), params.m, split), split)


def loss_and_gradient(cfg: Config, params: Params, split: Split) -> tuple[float, Params]:
    """Loss and the gradient of every block, float64, by explicit formulas."""
    n, L = split.actions.shape
    m = np.float64(params.m)
    pi = attention(cfg, params.w_q, params.w_k)
    z = logits(pi, m, split)
    dz = softmax(z)
    d_m, d_pi = np.zeros_like(m), np.zeros((L, L))
    for i in range(n):
        for t in range(L):
            dz[i, t, split.states[i, t + 1]] -= 1.0
            dz[i, t] /= n * L
            s = split.states[i, t]
            for j in range(L):
                a = split.actions[i, j]
                d_m[a, :, s] += pi[t, j] * dz[i, t]
                d_pi[t, j] += m[a, :, s] @ dz[i, t]
    d_q, d_k = attention_pull_back(cfg, params.w_q, params.w_k, d_pi)
    return cross_entropy(z, split), Params(d_q, d_k, d_m)


# --- optimisers ----------------------------------------------------------------------------------------------------------------


def sgd_step(x: np.ndarray, gradient: np.ndarray, lr: float, weight_decay: float = 0.0) -> np.ndarray:
    """One step of gradient descent with weight decay in the gradient."""
    return x - lr * (gradient + weight_decay * x)


def adamw_step(
    x: np.ndarray, gradient: np.ndarray, mean: np.ndarray, square: np.ndarray, step: int, lr: float, weight_decay: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One step (counted from 1) of AdamW, betas 0.9, 0.999, eps 1e-8: new weights and moments."""
    mean = 0.9 * mean + 0.1 * gradient
    square = 0.999 * square + 0.001 * gradient**2
    mean_hat, square_hat = mean / (1 - 0.9**step), square / (1 - 0.999**step)
    x = x * (1 - lr * weight_decay) - lr * mean_hat / (np.sqrt(square_hat) + 1e-8)
    return x, mean, square


def train(cfg: Config, params: Params, split: Split, epochs: int) -> list[Params]:
    """Full-batch training of every block in float64 by the config's optimiser: the weights at epochs 0..epochs."""
    path = [params.astype("float64")]
    moments = {name: (np.zeros(x.shape), np.zeros(x.shape)) for name, x in params.items()}
    for epoch in range(1, epochs + 1):
        gradient = dict(loss_and_gradient(cfg, path[-1], split)[1].items())
        new = {}
        for name, x in path[-1].items():
            if cfg.optimizer == "sgd":
                new[name] = sgd_step(x, gradient[name], cfg.lr, cfg.weight_decay)
            else:
                new[name], *moments[name] = adamw_step(x, gradient[name], *moments[name], epoch, cfg.lr, cfg.weight_decay)
        path.append(Params(**new))
    return path


# --- observables ---------------------------------------------------------------------------------------------------------------


def statistics(pi: np.ndarray, m: np.ndarray, split: Split) -> dict[str, float]:
    """Loss, next-token accuracy, mean and variance of the correct and of the other logits, over samples and positions."""
    z = logits(pi, m, split)
    correct, others, hits = [], [], []
    for i in range(z.shape[0]):
        for t in range(z.shape[1]):
            k = split.states[i, t + 1]
            correct.append(z[i, t, k])
            others.extend(np.delete(z[i, t], k))
            hits.append(np.argmax(z[i, t]) == k)
    return {
        "loss": cross_entropy(z, split),
        "next_token_accuracy": float(np.mean(hits)),
        "mu_k": float(np.mean(correct)),
        "var_k": float(np.var(correct)),
        "mu_o": float(np.mean(others)),
        "var_o": float(np.var(others)),
    }


def rollout(pi: np.ndarray, m: np.ndarray, actions: np.ndarray, s0: np.ndarray) -> np.ndarray:
    """Generated states (n, L+1): the argmax token is fed back as the next current state."""
    pi, m = np.float64(pi), np.float64(m)
    states = np.zeros((len(actions), actions.shape[1] + 1), dtype=np.int64)
    for i, (chain, s) in enumerate(zip(actions, s0, strict=True)):
        states[i, 0] = s
        for t in range(len(chain)):
            mixed = sum(pi[t, j] * m[chain[j]] for j in range(len(chain)))
            states[i, t + 1] = np.argmax(mixed[:, states[i, t]])
    return states


def order_parameters(pi: np.ndarray, m: np.ndarray, permutations: np.ndarray) -> dict[str, float]:
    """A, R, S as traces against the teacher's permutation matrices, and zeta = sum(m) / (d_g N)."""
    d_g, N = permutations.shape
    teacher = [np.eye(N)[permutations[a]].T for a in range(d_g)]  # column s is e_{sigma_a(s)}
    trace = np.array([[np.trace(teacher[a].T @ np.float64(m[b])) / N for b in range(d_g)] for a in range(d_g)])
    off = [trace[a, b] for a in range(d_g) for b in range(d_g) if a != b]
    return {
        "A": float(np.mean([pi[t, t] for t in range(len(pi))])),
        "R": float(np.mean(np.diag(trace))),
        "S": float(np.mean(off)) if off else float("nan"),
        "zeta": float(np.sum(np.float64(m)) / (d_g * N)),
    }


def teacher_overlap(permutations: np.ndarray) -> float:
    """tau: mean over a != b of tr(M*_a^T M*_b) / N, the fraction of states on which two permutations agree."""
    d_g = len(permutations)
    return float(np.mean([np.mean(permutations[a] == permutations[b]) for a in range(d_g) for b in range(d_g) if a != b]))


# --- the student on real tokens ------------------------------------------------------------------------------------------------


def token_attention(cfg: Config, w_q: np.ndarray, w_k: np.ndarray, embedding: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """pi_ij of one token sequence x_1..x_{2L+1}, every query i = 1..2L+1 over the actions j <= min(i, L); (2L+1, L).

    w_q, w_k (d_h, d_model) act on the rows of `embedding` (d_g + N, d_model).
    """
    pi = np.zeros((2 * cfg.L + 1, cfg.L))
    for i in range(1, 2 * cfg.L + 2):
        q = rotation(cfg, i) @ np.float64(w_q) @ np.float64(embedding[tokens[i - 1]])
        keys = [rotation(cfg, j) @ np.float64(w_k) @ np.float64(embedding[tokens[j - 1]]) for j in range(1, min(i, cfg.L) + 1)]
        pi[i - 1, : len(keys)] = softmax(np.array([q @ k / np.sqrt(cfg.d_h) for k in keys]))
    return pi


def token_loss(cfg: Config, params: Params, split: Split) -> float:
    """The loss of the student whose attention sees embedded tokens (params.embedding present)."""
    total = 0.0
    for i in range(len(split.actions)):
        tokens = np.concatenate([split.actions[i], cfg.d_g + split.states[i]])
        pi = token_attention(cfg, params.w_q, params.w_k, params.embedding, tokens)[cfg.L : 2 * cfg.L]
        one = Split(split.actions[i : i + 1], split.states[i : i + 1])
        total += cross_entropy(logits(pi, params.m, one), one)
    return total / len(split.actions)


def finite_difference(f, params: Params, name: str, index: tuple[int, ...], h: float = 1e-5) -> float:
    """Central difference of f(params) in one entry of one block, float64."""
    sides = []
    for sign in (1, -1):
        blocks = {key: np.array(value, dtype=np.float64) for key, value in params.items()}
        blocks[name][index] += sign * h
        sides.append(f(Params(**blocks)))
    return (sides[0] - sides[1]) / (2 * h)


def _at(z: np.ndarray, index: np.ndarray) -> np.ndarray:
    return np.take_along_axis(z, index[..., None], axis=-1)[..., 0]
