"""Items of a split as bags of rows: what PyTorch's `embedding_bag` needs to go forward and, transposed, back.

An *item* is a pair (sequence n, position t) in state s = s_t. Its logits are a weighted bag of L rows,

    z = sum_j pi[t, j] m[a_j, :, s],

and its residual dz belongs to L *cells* (s, t, j, a_j). Summing dz into cells, G[s, t, j, a], is the transposed bag: with the
items listed cell by cell it needs no atomic adds, so the result is the same every time, on a GPU too.

Items are sorted by (state, position) and cut into chunks, so that rows in use stay in the cache and memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch.nn.functional import embedding_bag

from ..params import Params
from ..task import Split

#: Numbers that one chunk's items (or cells) may hold: a share of a core's cache, or enough to fill a GPU.
_CHUNK = {"cpu": 2**19, "elsewhere": 2**25}


class Bag(NamedTuple):
    """One chunk: states `s0` to `s1` at positions `t0` to `t1`, its B items in order of (state, position)."""

    s0: int
    s1: int
    t0: int
    t1: int
    rows: torch.Tensor
    """Rows (s - s0) d_g + a_j of the chunk's part of `rows_by_state`; (B, L)."""
    position: torch.Tensor
    """Positions t; (B,)."""
    targets: torch.Tensor
    """Next states; (B, 1)."""
    entries: torch.Tensor
    """Places in the flattened `rows`, listed cell by cell; (B L,)."""
    items: torch.Tensor
    """The items of these places; (B L,)."""
    first: torch.Tensor
    """Where each cell's list begins, and the end; (number of cells + 1,)."""

    @property
    def states(self) -> slice:
        """The states as a slice."""
        return slice(self.s0, self.s1)

    @property
    def cells(self) -> tuple[int, int, int]:
        """Numbers of states, positions and cells of one (state, position)."""
        S, T = self.s1 - self.s0, self.t1 - self.t0
        return S, T, (len(self.first) - 1) // (S * T)

    def cell_of_place(self) -> torch.Tensor:
        """The cell of every place in the flattened `rows`; (B L,)."""
        cell = torch.empty(self.rows.numel(), dtype=torch.int64, device=self.rows.device)
        lengths = (self.first[1:] - self.first[:-1]).long()
        listed = torch.repeat_interleave(torch.arange(len(lengths), device=cell.device), lengths)
        return cell.scatter_(0, self.entries.long(), listed)


def prepare(split: Split, N: int, d_g: int, device: torch.device) -> list[Bag]:
    """The chunks of a split on a device, made once and kept with it."""
    key = ("torch", str(device))
    kept = split.prepared.get(key)
    if kept is None or kept[0] != (N, d_g):
        kept = split.prepared[key] = ((N, d_g), list(_chunks(split, N, d_g, device)))
    return kept[1]


def _chunks(split: Split, N: int, d_g: int, device: torch.device) -> Iterator[Bag]:
    n, L = split.actions.shape
    group = (split.inputs * L + np.arange(L)).ravel()
    order = np.argsort(group.astype(np.uint16) if N * L <= 2**16 else group, kind="stable")  # 16 bits: a radix sort
    start = np.searchsorted(group[order], np.arange(N * L + 1))
    budget = _CHUNK["cpu" if device.type == "cpu" else "elsewhere"]
    groups = max(1, budget // (N * max(L * d_g, n // N)))  # (state, position) pairs a chunk: cells and items within budget
    states, positions = max(1, groups // L), min(groups, L)
    for s0 in range(0, N, states):
        for t0 in range(0, L, positions):
            s1, t1 = min(s0 + states, N), min(t0 + positions, L)
            chosen = order[start[s0 * L + t0] : start[(s1 - 1) * L + t1]]
            if len(chosen):
                yield _bag(split, chosen, (s0, s1, t0, t1), d_g, device)


def _bag(split: Split, chosen: np.ndarray, bounds: tuple[int, int, int, int], d_g: int, device: torch.device) -> Bag:
    s0, s1, t0, t1 = bounds
    L = split.actions.shape[1]
    sequence, t = np.divmod(chosen, L)
    actions, state = split.actions[sequence], split.states[sequence, t] - s0
    cell = ((state * (t1 - t0) + t - t0)[:, None] * L + np.arange(L)) * d_g + actions
    ends = np.arange(0, cell.size + 1, L)
    shape = (len(chosen), (s1 - s0) * (t1 - t0) * L * d_g)
    # a compressed sparse matrix (items x cells) sorts its places by column in linear time when it is transposed
    by_cell = csr_matrix((np.arange(cell.size, dtype=np.int32), cell.ravel(), ends), shape=shape).tocsc()

    def tensor(x: np.ndarray, dtype: type) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(x, dtype=dtype)).to(device)

    return Bag(
        *bounds,
        rows=tensor(state[:, None] * d_g + actions, np.int32),
        position=tensor(t, np.int64),
        targets=tensor(split.states[sequence, t + 1][:, None], np.int64),
        entries=tensor(by_cell.data, np.int32),
        items=tensor(by_cell.indices, np.int32),
        first=tensor(by_cell.indptr, np.int32),
    )


def rows_by_state(m: torch.Tensor) -> torch.Tensor:
    """The rows that bags take: table[s, a] = m[a, :, s]; (N, d_g, N)."""
    return m.permute(2, 0, 1).contiguous()


def generate(
    m: torch.Tensor, actions: np.ndarray, s0: np.ndarray, weights: Callable[[int, torch.Tensor], torch.Tensor]
) -> np.ndarray:
    """States (n, L+1) by feeding back argmax tokens.

    `weights(t, s)` gives each sequence's attention (n, L) at position t, where it is in states s (n,).
    """
    d_g, N, _ = m.shape
    table = rows_by_state(m).view(-1, N)
    chosen = torch.tensor(actions, dtype=torch.int64, device=m.device)
    states = [torch.tensor(s0, dtype=torch.int64, device=m.device)]
    with torch.no_grad():
        for t in range(actions.shape[1]):
            s = states[-1]
            pi = weights(t, s).to(m.dtype).contiguous()
            states.append(embedding_bag(s[:, None] * d_g + chosen, table, mode="sum", per_sample_weights=pi).argmax(1))
    return torch.stack(states, 1).cpu().numpy()


def place_of(device: str | None) -> torch.device:
    """The device of that name, the CPU where none is given; refuses one that this machine's PyTorch cannot use."""
    try:
        place = torch.zeros(1, device=device or "cpu")
        place.item()  # which a device without memory, as meta, cannot tell
        return place.device
    except (RuntimeError, AssertionError, TypeError) as error:  # PyTorch has all of them, depending on the device
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(
            f"device = {device!r} cannot be used ({reason}); allowed: 'cpu', or a device that PyTorch finds"
        ) from None


def dtype_of(params: Params) -> torch.dtype:
    """The precision of weights, as PyTorch calls it."""
    return torch.float64 if params.m.dtype == np.float64 else torch.float32
