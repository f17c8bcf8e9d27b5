"""The attention head: in closed form for unit embeddings, and acting on embedded tokens under a causal mask."""

from __future__ import annotations

import torch
from torch import nn

from ..config import Config
from .rope import frequencies, rope


class ClosedAttention(nn.Module):
    """Attention of unit embeddings: scores depend on the token offset D = j - i alone.

    l[D] = sum_n [cos(w_n D) (q0 k0 + q1 k1) + sin(w_n D) (q1 k0 - q0 k1)] / sqrt(d_h), the same for every sequence.
    """

    def __init__(self, cfg: Config, w_q: torch.Tensor, w_k: torch.Tensor) -> None:
        super().__init__()
        self.cfg = cfg
        self.w_q, self.w_k = nn.Parameter(w_q.clone()), nn.Parameter(w_k.clone())
        self.omega: torch.Tensor
        self.register_buffer("omega", frequencies(cfg), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """pi_ij of the predictors i = L+1..min(P, 2L) over the actions j = 1..L of tokens (B, P); (B, predictors, L)."""
        L, P = self.cfg.L, tokens.shape[1]
        i = torch.arange(L + 1, min(P, 2 * L) + 1, device=tokens.device)
        j = torch.arange(1, L + 1, device=tokens.device)
        angle = (j - i[:, None]).to(self.omega.dtype)[..., None] * self.omega
        cos, sin = angle.cos().to(self.w_q.dtype), angle.sin().to(self.w_q.dtype)
        (q0, q1), (k0, k1) = self.w_q.view(-1, 2).T, self.w_k.view(-1, 2).T
        scores = (cos @ (q0 * k0 + q1 * k1) + sin @ (q1 * k0 - q0 * k1)) / self.cfg.d_h**0.5
        return torch.softmax(scores, dim=-1).expand(len(tokens), -1, -1)


class TokenAttention(nn.Module):
    """A standard RoPE attention head on embedded tokens u (B, P, d_model): queries W_Q u, keys W_K u, matrices (d_h, d_model).

    Tied, all columns of a matrix are one learnable vector (Appendix C of the paper): a one-hot u then makes the same key and
    query whatever the token, as the unit embedding does. Untied, attention may depend on the tokens.
    """

    def __init__(self, cfg: Config, w_q: torch.Tensor, w_k: torch.Tensor, tied: bool) -> None:
        super().__init__()
        self.cfg, self.tied, self.d_model = cfg, tied, w_q.shape[1]
        self.w_q, self.w_k = (nn.Parameter((w[:, 0] if tied else w).clone()) for w in (w_q, w_k))
        self.omega: torch.Tensor
        self.register_buffer("omega", frequencies(cfg), persistent=False)

    def matrix(self, w: torch.Tensor) -> torch.Tensor:
        """W (d_h, d_model), its column repeated where columns are tied."""
        return w[:, None].expand(-1, self.d_model) if self.tied else w

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        """pi_ij over all positions i, j = 1..P, zero but where j <= min(i, L); (B, P, P)."""
        position = torch.arange(1, u.shape[1] + 1, device=u.device)
        q = rope(u @ self.matrix(self.w_q).T, position, self.omega)
        k = rope(u @ self.matrix(self.w_k).T, position, self.omega)
        seen = position <= position[:, None].clamp(max=self.cfg.L)
        scores = (q @ k.transpose(1, 2) / self.cfg.d_h**0.5).masked_fill(~seen, -torch.inf)
        return torch.softmax(scores, dim=-1)
