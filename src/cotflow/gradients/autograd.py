"""The PyTorch backend: loss and gradient on any device, in memory proportional to the batch times L (L + N).

Attention goes through autograd, from the rotated keys and queries that the paper writes down; the logic module through
`embedding_bag` both ways (see `bags`), with pi and m as the only things differentiated by hand. Where attention depends on the
tokens (`fix_embedding = False` or `d_model` > 1), `torch_model.learned` takes over.
"""

from __future__ import annotations

import os

import numpy as np
import torch
from torch.nn.functional import embedding_bag

from ..attention import from_largest
from ..config import Config
from ..params import Params, vector_keys
from ..task import Split
from ..torch_model import learned
from ..torch_model.rope import action_positions, frequencies, predictors, rope
from . import literal
from .bags import Bag, dtype_of, generate, place_of, prepare, rows_by_state
from .softmax import Totals, residual
from .statistics import Statistics
from .threads import resolve

if os.environ.get("COTFLOW_THREADS"):  # it speaks for PyTorch's threads too
    torch.set_num_threads(resolve())

METHODS = ("bag", *literal.METHODS)


def loss_and_gradient(
    cfg: Config, params: Params, split: Split, device: str | None = None, method: str = "bag"
) -> tuple[float, Params]:
    """Mean cross-entropy over all samples and positions, and its gradient in the weights' precision.

    `method` "bag" is the one to use; "gather" and "literal" are slower formulations to check and compare it with.
    """
    if method not in METHODS:
        raise ValueError(f"method = {method!r} does not exist; allowed: {', '.join(METHODS)}")
    place = place_of(device)
    if not vector_keys(cfg):
        return learned.student_loss_and_gradient(cfg, params, split, device)
    w_q, w_k = (torch.tensor(w, dtype=torch.float64, requires_grad=True) for w in (params.w_q, params.w_k))
    pi = _attention(cfg, w_q, w_k)
    weights, m = pi.detach().to(place, dtype_of(params)), torch.tensor(params.m, device=place)
    if method == "bag":
        loss, d_pi, d_m = _bagged(weights, m, prepare(split, cfg.N, cfg.d_g, place))
    else:
        loss, d_pi, d_m = literal.loss_and_gradient(weights, m, split, method)
    pulled = from_largest(pi.detach().numpy(), d_pi.cpu().numpy().astype(np.float64))
    d_q, d_k = torch.autograd.grad(pi, (w_q, w_k), torch.from_numpy(pulled))
    blocks = (d_q, d_k, d_m)
    return loss, Params(*(d.cpu().numpy().astype(params.m.dtype, copy=False) for d in blocks))


def logic_gradient(
    pi: np.ndarray, m: np.ndarray, split: Split, device: str | None = None
) -> tuple[float, np.ndarray, np.ndarray]:
    """Mean cross-entropy under attention pi (L, L), and its gradient in pi (float64) and in m."""
    place, matrices = place_of(device), torch.tensor(m, device=place_of(device))
    weights = torch.from_numpy(np.ascontiguousarray(pi)).to(place, matrices.dtype)
    loss, d_pi, d_m = _bagged(weights, matrices, prepare(split, m.shape[1], m.shape[0], place))
    return loss, d_pi.cpu().numpy().astype(np.float64), d_m.cpu().numpy()


def statistics(cfg: Config, params: Params, split: Split, device: str | None = None) -> Statistics:
    """Loss, next-token accuracy, mean and variance of correct and other logits over a split's samples and positions."""
    if not vector_keys(cfg):
        return learned.student_statistics(cfg, params, split, device)
    place = place_of(device)
    pi = torch.from_numpy(attention(cfg, params)).to(place, dtype_of(params))
    table = rows_by_state(torch.tensor(params.m, device=place))
    totals = Totals(float(params.m.mean()))
    for bag in prepare(split, cfg.N, cfg.d_g, place):
        totals.add(_logits(pi, table, bag), bag.targets)
    return totals.statistics()


def rollout(cfg: Config, params: Params, actions: np.ndarray, s0: np.ndarray, device: str | None = None) -> np.ndarray:
    """States (n, L+1) generated from s_0 by feeding back the most likely token, the first of equal ones."""
    if not vector_keys(cfg):
        return learned.student_rollout(cfg, params, actions, s0, device)
    place = place_of(device)
    pi = torch.from_numpy(attention(cfg, params)).to(place, dtype_of(params))
    return generate(torch.tensor(params.m, device=place), actions, s0, lambda t, s: pi[t].expand(len(s), -1))


def attention(cfg: Config, params: Params, split: Split | None = None, device: str | None = None) -> np.ndarray:
    """Attention pi[t, j] (L, L), averaged over the split's sequences where it depends on them; float64."""
    if not vector_keys(cfg):
        if split is None:
            raise ValueError("attention depends on the sequences here (fix_embedding = False or d_model > 1): give a split")
        return learned.student_attention(cfg, params, split, device)
    w_q, w_k = (torch.tensor(w, dtype=torch.float64) for w in (params.w_q, params.w_k))
    return _attention(cfg, w_q, w_k).numpy()


def _attention(cfg: Config, w_q: torch.Tensor, w_k: torch.Tensor) -> torch.Tensor:
    """Pi (L, L): softmax over action positions of RoPE_i(W_Q) . RoPE_j(W_K) / sqrt(d_h)."""
    omega = frequencies(cfg)
    q = rope(w_q.expand(cfg.L, -1), predictors(cfg), omega)
    k = rope(w_k.expand(cfg.L, -1), action_positions(cfg), omega)
    return torch.softmax(q @ k.T / cfg.d_h**0.5, dim=-1)


def _bagged(pi: torch.Tensor, m: torch.Tensor, bags: list[Bag]) -> tuple[float, torch.Tensor, torch.Tensor]:
    """Loss, d/dpi (L, L) and d/dm (d_g, N, N), chunk by chunk in a fixed order; the loss is NaN where a weight is not finite."""
    d_g, N, _ = m.shape
    table, total, items = rows_by_state(m), 0.0, 0
    d_table, d_pi = torch.zeros_like(table), torch.zeros_like(pi)
    with torch.no_grad():
        for bag in bags:
            loss, dz = residual(_logits(pi, table, bag), bag.targets)
            total, items = total + loss, items + len(dz)
            S, T, width = bag.cells
            G = embedding_bag(bag.items, dz, bag.first, mode="sum", include_last_offset=True)
            G = G.view(S, T * width // d_g, d_g * N)
            d_table[bag.states] += (pi[bag.t0 : bag.t1].reshape(-1) @ G).view(S, d_g, N)
            d_pi[bag.t0 : bag.t1] += torch.bmm(G, table[bag.states].reshape(S, -1, 1)).sum(0).view(T, -1)
    if not m.isfinite().all():
        total = float("nan")
    return float(total) / items, d_pi / items, (d_table / items).permute(1, 2, 0).contiguous()


def _logits(pi: torch.Tensor, table: torch.Tensor, bag: Bag) -> torch.Tensor:
    """Z of a chunk's items (B, N)."""
    rows = table[bag.states].view(-1, table.shape[-1])
    return embedding_bag(bag.rows, rows, mode="sum", per_sample_weights=pi[bag.position])
