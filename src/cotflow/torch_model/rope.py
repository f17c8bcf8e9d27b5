"""Rotary positional encoding, as the paper defines it, for tensors."""

from __future__ import annotations

import math

import torch

from ..config import Config


def frequencies(cfg: Config) -> torch.Tensor:
    """RoPE frequencies w_n, n = 0..d_h/2-1; float64, shape (d_h/2,)."""
    n = torch.arange(cfg.d_h // 2, dtype=torch.float64)
    if cfg.rope_law == "linear":
        return 2 * math.pi * (n + 1) / cfg.d_h
    power = cfg.rope_theta ** (-2 * n / cfg.d_h)
    return 2 * math.pi * power if cfg.rope_law == "power-2pi" else power


def rope(x: torch.Tensor, positions: torch.Tensor, omega: torch.Tensor) -> torch.Tensor:
    """RoPE_i(x) = Omega(i) x: plane n, components (2n, 2n+1), turned by the angle w_n i.

    `x` (..., P, d_h) at `positions` (P,), counted from 1 as in the paper; `omega` (d_h/2,). Angles are float64 whatever the
    precision of x: at the longest sequences their rounding would show.
    """
    angle = positions.to(omega.dtype)[:, None] * omega
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    x0, x1 = x[..., 0::2], x[..., 1::2]
    return torch.stack([cos * x0 - sin * x1, sin * x0 + cos * x1], dim=-1).flatten(-2)


def predictors(cfg: Config) -> torch.Tensor:
    """Token positions i = L+1..2L whose next token is predicted; shape (L,)."""
    return torch.arange(cfg.L + 1, 2 * cfg.L + 1)


def action_positions(cfg: Config) -> torch.Tensor:
    """Token positions j = 1..L of the actions; shape (L,)."""
    return torch.arange(1, cfg.L + 1)
