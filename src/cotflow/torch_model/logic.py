"""The logic module: a weighted sum of learnable matrices, or the same as a GLU-style MLP with fixed projections."""

from __future__ import annotations

import torch
from torch import nn

from ..config import Config


class Matrices(nn.Module):
    """z = sum_a o_a M_a s with learnable matrices m[a] (d_g, N, N)."""

    def __init__(self, cfg: Config, m: torch.Tensor) -> None:
        super().__init__()
        self.m = nn.Parameter(m.clone())

    def forward(self, o: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        """Logits (..., N) of attention outputs o (..., d_g) and one-hot states s (..., N)."""
        return torch.einsum("...a,ars,...s->...r", o, self.m, s)

    def matrices(self) -> torch.Tensor:
        """The matrices m (d_g, N, N)."""
        return self.m


class GLU(nn.Module):
    """z = W_d [W_u x * W_g x] with x = (o, s), no biases, identity activation (Appendix C of the paper).

    W_u (d_g N, d_g + N) copies the state into d_g blocks, W_g repeats each action's weight over one block, and
    W_d = (M_1, ..., M_{d_g}) (N, d_g N) is learned. `train_projections` makes W_u and W_g learnable too, from there.
    """

    def __init__(self, cfg: Config, m: torch.Tensor, train_projections: bool = False) -> None:
        super().__init__()
        d_g, N, self.train_projections = cfg.d_g, cfg.N, train_projections
        up, gate = torch.zeros(2, d_g, N, d_g + N, dtype=m.dtype)
        up[:, :, d_g:] = torch.eye(N)
        gate[:, :, :d_g] = torch.eye(d_g)[:, None]
        self.w_u, self.w_g = (nn.Parameter(w.reshape(d_g * N, -1), requires_grad=train_projections) for w in (up, gate))
        self.w_d = nn.Parameter(m.permute(1, 0, 2).reshape(N, d_g * N).clone())

    def forward(self, o: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        """Logits (..., N) of attention outputs o (..., d_g) and one-hot states s (..., N)."""
        x = torch.cat([o, s], dim=-1)
        return ((x @ self.w_u.T) * (x @ self.w_g.T)) @ self.w_d.T

    def matrices(self) -> torch.Tensor:
        """The blocks of W_d as m (d_g, N, N); meaningful only while the projections are the fixed ones."""
        if self.train_projections:
            raise ValueError("a GLU with trained projections is no longer a sum of matrices: train_projections = True")
        N = len(self.w_d)
        return self.w_d.view(N, -1, N).permute(1, 0, 2)
