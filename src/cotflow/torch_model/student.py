"""The one-block transformer, from tokens to next-token logits: closed form, bundled one-hot embeddings, learned embeddings.

All three take real token sequences x_1..x_P, L+1 <= P <= 2L+1, with states numbered after the d_g actions, and all take their
weights from `Params`. With the paper's constraints in place they compute the same function. They are written to be read and
extended, not for speed: to train at full size use `cotflow.gradient`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot

from ..config import Config
from ..params import Params, require_vector_keys
from ..task import Split, tokens
from .attention import ClosedAttention, TokenAttention
from .logic import GLU, Matrices


class Student(nn.Module):
    """Attention that retrieves an action, fixed one-hot values, and a logic module that applies it to the current state.

    `glu` builds the logic module as constrained GLU MLP, `train_projections` lifts its constraint.
    """

    def __init__(self, cfg: Config, params: Params, glu: bool = False, train_projections: bool = False) -> None:
        super().__init__()
        if train_projections and not glu:
            raise ValueError("train_projections = True needs glu = True: only the GLU has projections")
        self.cfg = cfg
        m = torch.from_numpy(params.m)
        self.logic = GLU(cfg, m, train_projections) if glu else Matrices(cfg, m)

    def pi(self, x: torch.Tensor) -> torch.Tensor:
        """Attention of the predictors i = L+1..min(P, 2L) over the actions of tokens x (B, P); (B, predictors, L)."""
        raise NotImplementedError

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the next state at the predictors i = L+1..min(P, 2L) of tokens x (B, P); (B, predictors, N)."""
        L, d_g = self.cfg.L, self.cfg.d_g
        features = one_hot(x, d_g + self.cfg.N).to(next(self.parameters()).dtype)
        values, states = features[:, :L, :d_g], features[:, L : 2 * L, d_g:]
        return self.logic(self.pi(x) @ values, states)

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy over the suffix states of whole sequences x (B, 2L+1), paper Eq. (7)."""
        targets = x[:, self.cfg.L + 1 :] - self.cfg.d_g
        return cross_entropy(self(x).flatten(0, 1), targets.flatten())

    @torch.no_grad()
    def generate(self, prompt: torch.Tensor) -> torch.Tensor:
        """Append L argmax tokens to prompts (g_1..g_L, s_0) (B, L+1); (B, 2L+1)."""
        x = prompt
        for _ in range(self.cfg.L):
            x = torch.cat([x, self.cfg.d_g + self(x)[:, -1:].argmax(-1)], dim=1)
        return x

    def params(self) -> Params:
        """The weights as `Params`."""
        raise NotImplementedError


class ClosedForm(Student):
    """The paper's student: unit embeddings, so keys and queries are vectors and pi is the same for every sequence."""

    def __init__(self, cfg: Config, params: Params, glu: bool = False, train_projections: bool = False) -> None:
        require_vector_keys(cfg, "ClosedForm")
        super().__init__(cfg, params, glu, train_projections)
        self.attention = ClosedAttention(cfg, torch.from_numpy(params.w_q), torch.from_numpy(params.w_k))

    def pi(self, x: torch.Tensor) -> torch.Tensor:
        """See `Student.pi`."""
        return self.attention(x)

    def params(self) -> Params:
        """The weights as `Params`."""
        return Params(_array(self.attention.w_q), _array(self.attention.w_k), _array(self.logic.matrices()))


class Embedded(Student):
    """Keys and queries W_Q E_x, W_K E_x of token embeddings E (d_g + N, d_model), which learn unless `fix_embedding` holds."""

    def __init__(self, cfg: Config, params: Params, glu: bool = False, train_projections: bool = False) -> None:
        super().__init__(cfg, params, glu, train_projections)
        if params.embedding is None:
            raise ValueError("params.embedding is missing; Embedded needs fix_embedding = False or d_model > 1")
        self.embedding = nn.Parameter(torch.from_numpy(params.embedding).clone(), requires_grad=not cfg.fix_embedding)
        self.attention = TokenAttention(cfg, torch.from_numpy(params.w_q), torch.from_numpy(params.w_k), tied=False)

    def pi(self, x: torch.Tensor) -> torch.Tensor:
        """See `Student.pi`."""
        return self.attention(self.embedding[x])[:, self.cfg.L : 2 * self.cfg.L, : self.cfg.L]

    def params(self) -> Params:
        """The weights as `Params`, with the embedding."""
        blocks = (self.attention.w_q, self.attention.w_k, self.logic.matrices(), self.embedding)
        return Params(*map(_array, blocks))


class Bundled(Student):
    """One-hot embeddings of actions and states bundled in d_g + N dimensions, with matrices W_Q, W_K (d_h, d_g + N).

    Starts from the paper's vectors, repeated in every column. Tied, the columns stay equal: the paper's model. Untied, each
    learns on its own and attention comes to depend on the sequence.
    """

    def __init__(
        self, cfg: Config, params: Params, tied: bool = True, glu: bool = False, train_projections: bool = False
    ) -> None:
        super().__init__(cfg, params, glu, train_projections)
        self.width = cfg.d_g + cfg.N
        w_q, w_k = (torch.from_numpy(w) for w in (params.w_q, params.w_k))
        if w_q.ndim == 1:
            w_q, w_k = (w[:, None].expand(-1, self.width) for w in (w_q, w_k))
        elif tied or w_q.shape[1] != self.width:
            raise ValueError(f"w_q has shape {tuple(w_q.shape)}; allowed: (d_h,), or (d_h, d_g + N = {self.width}) untied")
        self.attention = TokenAttention(cfg, w_q, w_k, tied)

    def pi(self, x: torch.Tensor) -> torch.Tensor:
        """See `Student.pi`."""
        u = one_hot(x, self.width).to(self.attention.w_q.dtype)
        return self.attention(u)[:, self.cfg.L : 2 * self.cfg.L, : self.cfg.L]

    def params(self) -> Params:
        """The weights as `Params`: vectors where tied; otherwise matrices, with the identity as embedding."""
        w_q, w_k, m = _array(self.attention.w_q), _array(self.attention.w_k), _array(self.logic.matrices())
        return Params(w_q, w_k, m, None if self.attention.tied else np.eye(self.width, dtype=m.dtype))


def token_tensor(split: Split, d_g: int) -> torch.Tensor:
    """The token sequences x_1..x_{2L+1} of a split, paper Eq. (2); (n, 2L+1)."""
    return torch.from_numpy(tokens(split, d_g))


def _array(x: torch.Tensor) -> np.ndarray:
    return np.array(x.detach().cpu().numpy(), order="C")
