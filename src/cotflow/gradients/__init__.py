"""Loss and gradient of a batch: one signature, several backends."""

from __future__ import annotations

import numpy as np

from ..config import Config
from ..params import Params
from ..task import Split, check_sequences
from .backends import BACKENDS, Backend, backend
from .statistics import Statistics

__all__ = ["BACKENDS", "Backend", "Statistics", "backend", "gradient", "rollout"]


def gradient(
    cfg: Config,
    params: Params,
    split: Split,
    backend: str | Backend = "fused",
    threads: int | None = None,
    device: str | None = None,
) -> tuple[float, Params]:
    """Mean cross-entropy of the split's next tokens and its gradient with respect to every weight.

    Memory grows as sequences times L² (what is prepared for the split; with "torch" as sequences times L (L + N)) and
    as d_g N² (the weights), never as a matrix per sample. `threads` goes to backend "fused", `device` to "torch". The gradient is
    that of the loss alone: weight decay and frozen blocks are the optimiser's business.
    """
    from .backends import backend as make

    return make(backend, threads, device).loss_and_gradient(cfg, params.check(cfg), split.check(cfg))


def rollout(
    cfg: Config,
    params: Params,
    actions: np.ndarray,
    s0: np.ndarray,
    backend: str | Backend = "fused",
    threads: int | None = None,
    device: str | None = None,
) -> np.ndarray:
    """States (n, L+1) that the student generates from the prompt (g_1..g_L, s_0), its own tokens fed back."""
    from .backends import backend as make

    actions, s0 = np.atleast_2d(np.asarray(actions)), np.atleast_1d(np.asarray(s0))
    check_sequences(cfg, actions, s0, "s0", actions.shape[:1])
    for name, value in params.items():
        if not np.isfinite(value).all():
            raise ValueError(f"params.{name} holds weights that are not finite: the largest logit means nothing")
    return make(backend, threads, device).rollout(cfg, params.check(cfg), actions.astype(np.int64), s0.astype(np.int64))
