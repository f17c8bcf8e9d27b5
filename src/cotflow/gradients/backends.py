"""The backends behind one face: gradient, statistics, rollout and attention of given weights on given sequences."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ..attention import attention, pull_back
from ..config import Config
from ..params import Params, require_vector_keys
from ..task import Split
from .statistics import Statistics


class Backend(Protocol):
    """What every backend offers; all of them compute the same functions."""

    name: str

    def loss_and_gradient(self, cfg: Config, params: Params, split: Split) -> tuple[float, Params]:
        """Mean cross-entropy over all sequences and positions, and its gradient, in the weights' precision."""
        ...

    def logic_gradient(self, pi: np.ndarray, m: np.ndarray, split: Split) -> tuple[float, np.ndarray, np.ndarray]:
        """Mean cross-entropy under attention pi (L, L) and its gradient in pi (float64) and m (the precision of m)."""
        ...

    def statistics(self, cfg: Config, params: Params, split: Split) -> Statistics:
        """Loss, next-token accuracy and logit statistics of a split."""
        ...

    def rollout(self, cfg: Config, params: Params, actions: np.ndarray, s0: np.ndarray) -> np.ndarray:
        """States (n, L+1) generated from s_0 by feeding back the most likely token."""
        ...

    def attention(self, cfg: Config, params: Params, split: Split) -> np.ndarray:
        """Attention pi (L, L), averaged over the split's sequences where it depends on them."""
        ...


class Fused:
    """The Numba kernel for the logic module, with attention and its pull-back in closed form."""

    name = "fused"

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads

    def loss_and_gradient(self, cfg: Config, params: Params, split: Split) -> tuple[float, Params]:
        pi = self.attention(cfg, params, split)
        loss, d_pi, d_m = self.logic_gradient(pi, params.m, split)
        d_q, d_k = pull_back(cfg, params.w_q, params.w_k, pi, d_pi)
        dtype = params.m.dtype
        return loss, Params(d_q.astype(dtype), d_k.astype(dtype), d_m)

    def logic_gradient(self, pi: np.ndarray, m: np.ndarray, split: Split) -> tuple[float, np.ndarray, np.ndarray]:
        from . import fused

        return fused.loss_and_gradient(pi, m, fused.prepare(split, m.shape[1], m.shape[0]), self.threads)

    def statistics(self, cfg: Config, params: Params, split: Split) -> Statistics:
        from . import fused

        pi = self.attention(cfg, params, split)
        return fused.statistics(pi, params.m, fused.prepare(split, cfg.N, cfg.d_g), self.threads)

    def rollout(self, cfg: Config, params: Params, actions: np.ndarray, s0: np.ndarray) -> np.ndarray:
        from . import fused

        require_vector_keys(cfg, "backend 'fused'")
        return fused.rollout(attention(cfg, params.w_q, params.w_k), params.m, actions, s0, self.threads)

    def attention(self, cfg: Config, params: Params, split: Split) -> np.ndarray:
        require_vector_keys(cfg, "backend 'fused'")
        return attention(cfg, params.w_q, params.w_k)


class Torch:
    """PyTorch on any device: the reference, the road to a GPU, and the only backend for learned embeddings."""

    name = "torch"

    def __init__(self, device: str | None = None) -> None:
        try:
            from .bags import place_of
        except ImportError as error:
            raise ValueError(f"backend 'torch' needs PyTorch: pip install 'cotflow[torch]' ({error})") from None
        place_of(device)
        self.device = device

    @property
    def _autograd(self) -> Any:
        """The module that computes; not kept, so that a backend can travel to a worker."""
        from . import autograd

        return autograd

    def loss_and_gradient(self, cfg: Config, params: Params, split: Split) -> tuple[float, Params]:
        return self._autograd.loss_and_gradient(cfg, params, split, self.device)

    def logic_gradient(self, pi: np.ndarray, m: np.ndarray, split: Split) -> tuple[float, np.ndarray, np.ndarray]:
        return self._autograd.logic_gradient(pi, m, split, self.device)

    def statistics(self, cfg: Config, params: Params, split: Split) -> Statistics:
        return self._autograd.statistics(cfg, params, split, self.device)

    def rollout(self, cfg: Config, params: Params, actions: np.ndarray, s0: np.ndarray) -> np.ndarray:
        return self._autograd.rollout(cfg, params, actions, s0, self.device)

    def attention(self, cfg: Config, params: Params, split: Split) -> np.ndarray:
        return self._autograd.attention(cfg, params, split, self.device)


BACKENDS = ("fused", "torch")


def tells_pi(cfg: Config, backend: Backend, split: Split) -> bool:
    """Whether what a backend computes is `logic_gradient` under the attention of closed form.

    It is not where `loss_and_gradient` alone was replaced, in a subclass or in the object itself, or where `attention` is
    another.
    """
    if not hasattr(backend, "logic_gradient"):
        return False
    homes = [vars(place) for place in (backend, *type(backend).__mro__) if hasattr(place, "__dict__")]
    logic, whole = (
        next((k for k, home in enumerate(homes) if name in home), len(homes)) for name in ("logic_gradient", "loss_and_gradient")
    )
    if logic > whole:
        return False
    params = Params.initial(cfg.replace(init_variance=1.0), 0)
    found, expected = backend.attention(cfg, params, split), attention(cfg, params.w_q, params.w_k)
    return found.shape == expected.shape and bool(np.allclose(found, expected, atol=1e-5))


def backend(name: str | Backend = "fused", threads: int | None = None, device: str | None = None) -> Backend:
    """The backend of that name, or the one that is handed in; `threads` goes to "fused", `device` to "torch"."""
    if not isinstance(name, str):
        return name
    if name == "fused":
        if device is not None and device != "cpu":
            raise ValueError(f"device = {device!r} needs backend 'torch'; backend 'fused' runs on the CPU")
        return Fused(threads)
    if name == "torch":
        return Torch(device)
    raise ValueError(f"backend = {name!r} does not exist; allowed: {', '.join(BACKENDS)}")
