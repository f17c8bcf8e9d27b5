"""Training the student whose attention sees its tokens: learned or wider embeddings, with keys and queries as matrices.

A query is then a function of the current state s and position t, a key of the action a and its position j:

    l = RoPE_i(W_Q E_s) . RoPE_j(W_K E_a) / sqrt(d_h),   i = L+1+t,

so all scores of a data set come from one table over the cells (s, t, j, a), of which every sample gathers its own. The rest is
the paper's logic module with weights of its own for each sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import embedding_bag

from ..config import Config
from ..gradients.bags import Bag, dtype_of, generate, place_of, prepare, rows_by_state
from ..gradients.softmax import Totals, residual
from ..gradients.statistics import Statistics
from ..params import Params
from ..task import Split
from .rope import action_positions, frequencies, predictors, rope


class Observables(NamedTuple):
    """What a trajectory records of a split: mean attention (L, L), statistics, and generated states (n, L+1)."""

    attention: np.ndarray
    statistics: Statistics
    rollout: np.ndarray


def student_loss_and_gradient(cfg: Config, params: Params, split: Split, device: str | None = None) -> tuple[float, Params]:
    """Mean cross-entropy and its gradient in w_q, w_k (d_h, d_model), m and the embedding (d_g + N, d_model)."""
    student = _Student(cfg, params, device, differentiate=True)
    total, items = 0.0, 0
    d_table, d_q, d_k = (torch.zeros_like(x) for x in (student.table, student.q, student.k))
    for bag in prepare(split, cfg.N, cfg.d_g, student.place):
        pi = student.attention(bag).requires_grad_()
        z = student.logits(bag, pi)
        loss, dz = residual(z.detach(), bag.targets)
        total, items = total + loss, items + len(dz)
        (d_pi,) = torch.autograd.grad(z, pi, dz)
        d_q_bag, d_k_bag, d_rows = student.pull_back(bag, pi.detach(), d_pi, dz)
        d_q[bag.states, bag.t0 : bag.t1] += d_q_bag
        d_k += d_k_bag
        d_table[bag.states] += d_rows
    weights = student.weights_gradient(d_q / items, d_k / items)
    d_m = (d_table / items).permute(1, 2, 0)
    blocks = {name: d.cpu().numpy().astype(params.m.dtype, order="C") for name, d in [*weights.items(), ("m", d_m)]}
    return float(total) / items, Params(**blocks)


def student_attention(cfg: Config, params: Params, split: Split, device: str | None = None) -> np.ndarray:
    """pi[t, j] over the action positions, averaged over the split's sequences; (L, L) float64."""
    student = _Student(cfg, params, device)
    total = torch.zeros((cfg.L, cfg.L), dtype=student.table.dtype, device=student.place)
    for bag in prepare(split, cfg.N, cfg.d_g, student.place):
        total.index_add_(0, bag.position, student.attention(bag))
    return total.cpu().numpy().astype(np.float64) / len(split)


def student_statistics(cfg: Config, params: Params, split: Split, device: str | None = None) -> Statistics:
    """Loss, next-token accuracy, mean and variance of correct and other logits over a split's samples and positions."""
    student = _Student(cfg, params, device)
    totals = Totals(float(params.m.mean()))
    for bag in prepare(split, cfg.N, cfg.d_g, student.place):
        totals.add(student.logits(bag, student.attention(bag)), bag.targets)
    return totals.statistics()


def student_rollout(cfg: Config, params: Params, actions: np.ndarray, s0: np.ndarray, device: str | None = None) -> np.ndarray:
    """States (n, L+1) generated from s_0; what attention sees at each step is the generated token."""
    student = _Student(cfg, params, device)
    places = torch.tensor(np.arange(cfg.L) * cfg.d_g + actions, device=student.place)

    def weights(t: int, s: torch.Tensor) -> torch.Tensor:
        scores = student.scores(slice(0, cfg.N), slice(t, t + 1)).view(cfg.N, -1)
        return torch.softmax(scores[s[:, None], places], 1)

    return generate(torch.tensor(params.m, device=student.place), actions, s0, weights)


def student_observables(cfg: Config, params: Params, split: Split, device: str | None = None) -> Observables:
    """Mean attention, statistics and rollout of a split."""
    return Observables(
        student_attention(cfg, params, split, device),
        student_statistics(cfg, params, split, device),
        student_rollout(cfg, params, split.actions, split.states[:, 0], device),
    )


class _Student:
    """Weights on their device, with the rotated queries q[s, t] (N, L, d_h) and keys k[j, a] (L, d_g, d_h)."""

    def __init__(self, cfg: Config, params: Params, device: str | None, differentiate: bool = False) -> None:
        if params.embedding is None:
            raise ValueError("params.embedding is missing; fix_embedding = False or d_model > 1 needs an embedding table")
        self.cfg, self.place = cfg, place_of(device)
        dtype = dtype_of(params)
        self.leaves = {
            name: torch.tensor(getattr(params, name), dtype=torch.float64, requires_grad=differentiate)
            for name in ("w_q", "w_k", "embedding")
        }
        self.rotated = _rotated(cfg, **self.leaves)
        self.q, self.k = (x.detach().to(self.place, dtype).contiguous() for x in self.rotated)
        self.table = rows_by_state(torch.tensor(params.m, device=self.place))

    def scores(self, states: slice, positions: slice) -> torch.Tensor:
        """Scores of the cells (s, t, j, a) of these states and positions, (S T, L d_g)."""
        q = self.q[states, positions].reshape(-1, self.cfg.d_h)
        return q @ self.k.view(-1, self.cfg.d_h).T / self.cfg.d_h**0.5

    def attention(self, bag: Bag) -> torch.Tensor:
        """Pi of each of a chunk's items, (B, L)."""
        scores = self.scores(bag.states, slice(bag.t0, bag.t1))
        own = scores.view(-1)[bag.cell_of_place()].view(bag.rows.shape)
        e = (own - own.amax(1, keepdim=True)).exp_()  # on rows this short much faster than torch.softmax
        return e.div_(e.sum(1, keepdim=True))

    def logits(self, bag: Bag, pi: torch.Tensor) -> torch.Tensor:
        """Z of a chunk's items, (B, N)."""
        return embedding_bag(bag.rows, self.table[bag.states].view(-1, self.cfg.N), mode="sum", per_sample_weights=pi)

    def pull_back(
        self, bag: Bag, pi: torch.Tensor, d_pi: torch.Tensor, dz: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """A chunk's d/dq (S, T, d_h), d/dk (L, d_g, d_h) and d/d(rows of m) (S, d_g, N)."""
        cfg, (S, T, _) = self.cfg, bag.cells
        d_score = pi * (d_pi - (pi * d_pi).sum(1, keepdim=True)) / cfg.d_h**0.5
        cells = embedding_bag(bag.entries, d_score.view(-1, 1), bag.first, mode="sum", include_last_offset=True)
        cells = cells.view(S * T, -1)
        q = self.q[bag.states, bag.t0 : bag.t1]
        d_q = (cells @ self.k.view(-1, cfg.d_h)).view(q.shape)
        d_k = (cells.T @ q.reshape(-1, cfg.d_h)).view(self.k.shape)
        weights = pi.view(-1)[bag.entries]
        G = embedding_bag(bag.items, dz, bag.first, mode="sum", include_last_offset=True, per_sample_weights=weights)
        return d_q, d_k, G.view(S, -1, cfg.d_g, cfg.N).sum(1)

    def weights_gradient(self, d_q: torch.Tensor, d_k: torch.Tensor) -> dict[str, torch.Tensor]:
        """Carry gradients of the rotated queries and keys back to w_q, w_k and the embedding."""
        outer = [d.cpu().to(torch.float64) for d in (d_q, d_k)]
        return dict(zip(self.leaves, torch.autograd.grad(self.rotated, list(self.leaves.values()), outer), strict=True))


def _rotated(cfg: Config, w_q: torch.Tensor, w_k: torch.Tensor, embedding: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """RoPE_i(W_Q E_s) for all states and predictors (N, L, d_h); RoPE_j(W_K E_a) for action positions and actions."""
    omega = frequencies(cfg)
    actions, states = embedding[: cfg.d_g], embedding[cfg.d_g :]
    q = rope((states @ w_q.T)[:, None].expand(-1, cfg.L, -1), predictors(cfg), omega)
    k = rope((actions @ w_k.T)[:, None].expand(-1, cfg.L, -1), action_positions(cfg), omega)
    return q, k.transpose(0, 1)
