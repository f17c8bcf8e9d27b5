"""Slower PyTorch formulations of the same gradient: how it is written in the paper, to compare and to check with.

"literal" builds a matrix per sample, M~ = sum_a o_a M_a, as the paper words it: memory n L N². "gather" takes the L columns of
each sample and leaves the rest to autograd: memory n L² N. Neither is for training.
"""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy, one_hot

from ..task import Split

METHODS = ("gather", "literal")


def loss_and_gradient(pi: torch.Tensor, m: torch.Tensor, split: Split, method: str) -> tuple[float, torch.Tensor, torch.Tensor]:
    """Mean cross-entropy and its gradient in pi (L, L) and m (d_g, N, N), all by autograd."""
    pi, m = pi.detach().requires_grad_(), m.detach().requires_grad_()
    actions, states = (torch.tensor(x, device=m.device) for x in (split.actions, split.states))
    formulation = _literal if method == "literal" else _gather
    z = formulation(pi, m, actions, states[:, :-1])
    loss = cross_entropy(z.flatten(0, 1), states[:, 1:].flatten())
    d_pi, d_m = torch.autograd.grad(loss, (pi, m))
    return loss.item(), d_pi, d_m


def _literal(pi: torch.Tensor, m: torch.Tensor, actions: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """z[n, t] = M~[n, t] e_s with o = pi v and one-hot values v; (n, L, N)."""
    values = one_hot(actions, m.shape[0]).to(m.dtype)
    o = torch.einsum("tj,nja->nta", pi, values)
    mixed = torch.einsum("nta,ars->ntrs", o, m)
    return torch.einsum("ntrs,nts->ntr", mixed, one_hot(states, m.shape[1]).to(m.dtype))


def _gather(pi: torch.Tensor, m: torch.Tensor, actions: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """z[n, t] = sum_j pi[t, j] m[a_j, :, s_t] from gathered columns; (n, L, N)."""
    columns = m.transpose(1, 2)[actions[:, None, :], states[:, :, None]]
    return torch.einsum("tj,ntjr->ntr", pi, columns)
