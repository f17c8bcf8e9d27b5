"""Do the assumptions behind the rollout formula hold? Measured on any weights and any sequences.

The formula takes logits as independent Gaussians, the steps of a rollout as alike, and a wrong state as one that leads to
the right one only by chance, B = (1 - A)/(N - 1).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.stats import kurtosis, norm, skew

from ..attention import attention
from ..config import Config
from ..gradients import rollout
from ..params import Params, require_vector_keys
from ..task import Split
from ..trajectory import config_of
from .rollout import rollout_recursion, wrong_recovery

Array = NDArray[np.float64]
LOGITS = ("correct", "other")
Measure = Callable[[Config, Params, Split], xr.Dataset]


def over_training(run: xr.Dataset, split: Split, measure: Measure) -> xr.Dataset:
    """A measure, as `gaussianity`, of a run's weights before training, at its snapshots and at its end, along `epoch`.

    >>> from cotflow import Task, simulate
    >>> cfg = Config.preset("smoke", train_epochs=100)
    >>> run = simulate(cfg, 0, save_params=[50])
    >>> over_training(run, Task(cfg, 0).test, gaussianity).skewness.sizes["epoch"]
    3
    """
    cfg = config_of(run)
    saved = run.snapshot.values.tolist() if "snapshot" in run.coords else []
    epochs = sorted({0, *map(int, saved), int(run.epoch[-1])})
    measured = [measure(cfg, Params.of(run, epoch), split) for epoch in epochs]
    alpha = np.array(epochs) * cfg.alpha_per_epoch
    return xr.concat(measured, "epoch", join="exact").assign_coords(epoch=epochs, alpha=("epoch", alpha))


def logits(cfg: Config, params: Params, split: Split) -> Array:
    """Teacher-forced logits z[n, t, r] = sum_j pi[t, j] m[g_j, r, s_t], shape (n, L, N), in float64.

    >>> from cotflow import Task
    >>> cfg = Config.preset("smoke")
    >>> logits(cfg, Params.initial(cfg, 0), Task(cfg, 0).test).shape
    (128, 5, 8)
    """
    require_vector_keys(cfg, "theory.assumptions")
    split = split.check(cfg)
    pi = attention(cfg, params.w_q, params.w_k)
    columns = np.ascontiguousarray(np.transpose(params.m, (0, 2, 1)), dtype=np.float64)  # (action, state, next state)
    z = np.empty((len(split), cfg.L, cfg.N))
    for t in range(cfg.L):
        z[:, t] = np.einsum("j,njr->nr", pi[t], columns[split.actions, split.states[:, t, None]])
    return z


def correct_and_others(z: Array, targets: NDArray[np.int64]) -> tuple[Array, Array]:
    """The correct logit (items,) and the other ones (items, N - 1) of logits z (..., N) with targets (...).

    >>> correct_and_others(np.array([[1.0, 2.0, 3.0]]), np.array([1]))
    (array([2.]), array([[1., 3.]]))
    """
    N = z.shape[-1]
    rows, targets = z.reshape(-1, N), targets.reshape(-1)
    keep = np.arange(N) != targets[:, None]
    return rows[np.arange(len(rows)), targets], rows[keep].reshape(-1, N - 1)


def gaussianity(cfg: Config, params: Params, split: Split) -> xr.Dataset:
    """How Gaussian and how independent the logits are over samples and positions.

    Along `logit` ("correct", "other"): mean, variance, skewness, excess kurtosis (both 0 for a Gaussian), and
    `correlation`: of the correct logit with another one, and of two others.

    >>> from cotflow import Task
    >>> cfg = Config.preset("smoke")
    >>> measured = gaussianity(cfg, Params.initial(cfg, 0), Task(cfg, 0).train)
    >>> bool((abs(measured.skewness) < 0.5).all())
    True
    """
    correct, others = correct_and_others(logits(cfg, params, split), split.targets)
    values = {
        "mean": [correct.mean(), others.mean()],
        "variance": [correct.var(), others.var()],
        "skewness": [skew(correct), skew(others.ravel())],
        "excess_kurtosis": [kurtosis(correct), kurtosis(others.ravel())],
        "correlation": [correlation_with_others(correct, others), correlation_among(others)],
    }
    return xr.Dataset({name: ("logit", np.array(pair)) for name, pair in values.items()}, coords={"logit": list(LOGITS)})


def correlation_with_others(correct: Array, others: Array) -> float:
    """Mean correlation of the correct logit (items,) with another one, others (items, K) having one common variance.

    >>> round(correlation_with_others(np.array([0.0, 1.0]), np.array([[1.0, 1.0], [0.0, 0.0]])), 12)
    -1.0
    """
    covariance = np.mean((correct - correct.mean()) * (others.mean(axis=1) - others.mean()))
    scale = np.sqrt(correct.var() * others.var())
    return float(covariance / scale) if scale > 0 else float("nan")


def correlation_among(others: Array) -> float:
    """Mean correlation of two different other logits, others (items, K) having one common mean and variance.

    >>> round(correlation_among(np.array([[0.0, 0.0], [1.0, 1.0]])), 12)
    1.0
    """
    K, variance = others.shape[1], others.var()
    if K < 2 or variance == 0:
        return float("nan")
    of_the_mean = np.mean((others.mean(axis=1) - others.mean()) ** 2)
    return float((K * of_the_mean / variance - 1) / (K - 1))


def histograms(cfg: Config, params: Params, split: Split, bins: int | ArrayLike = 80) -> xr.Dataset:
    """Densities of the correct and the other logits, beside Gaussians of the same mean and variance.

    `density` and `gaussian` along (`logit`, `z`), z being the centres of bins that the two kinds share; a Gaussian is
    averaged over each bin, so the two compare bin by bin. `bins` is their number, or their edges where moments of a training
    are to share them.

    >>> from cotflow import Task
    >>> cfg = Config.preset("smoke")
    >>> h = histograms(cfg, Params.initial(cfg, 0), Task(cfg, 0).train)
    >>> bool(np.allclose(h.density.sum("z") * float(h.z[1] - h.z[0]), 1))
    True
    """
    kinds = correct_and_others(logits(cfg, params, split), split.targets)
    edges = np.histogram_bin_edges(np.concatenate([kind.ravel() for kind in kinds]), bins)  # type: ignore[arg-type]
    density = [np.histogram(kind, edges, density=True)[0] for kind in kinds]
    gaussian = [_gaussian(kind.ravel(), edges) for kind in kinds]
    centres = (edges[:-1] + edges[1:]) / 2
    return xr.Dataset(
        {"density": (("logit", "z"), np.array(density)), "gaussian": (("logit", "z"), np.array(gaussian))},
        coords={"logit": list(LOGITS), "z": centres},
    )


def _gaussian(values: Array, edges: Array) -> Array:
    """Density over bins of the Gaussian that has the mean and the variance of values; without spread it fills one bin."""
    if np.ptp(values) == 0:
        return np.histogram(values, edges, density=True)[0]
    return np.diff(norm.cdf(edges, values.mean(), values.std())) / np.diff(edges)


def step_accuracies(generated: NDArray[np.int64], states: NDArray[np.int64]) -> tuple[Array, Array]:
    """A_t and B_t, both (L,): how often step t is right from the right state, and from a wrong one (NaN without any; Eq. 83).

    generated, states (n, L+1): the rollouts and the true chains, which share their first state.

    >>> step_accuracies(np.array([[0, 1, 0], [0, 0, 0]]), np.array([[0, 1, 1], [0, 1, 0]]))
    (array([0.5, 0. ]), array([nan,  1.]))
    """
    right = generated == states
    on, off = right[:, :-1], ~right[:, :-1]
    hit = right[:, 1:]
    with np.errstate(invalid="ignore"):
        return (hit & on).sum(axis=0) / on.sum(axis=0), (hit & off).sum(axis=0) / off.sum(axis=0)


def rollout_steps(cfg: Config, params: Params, split: Split) -> xr.Dataset:
    """A_t and B_t of the student's own rollouts beside what the theory assumes of them.

    Along `step`: `A_t`, `B_t`, `B_assumed` = (1 - A_t)/(N - 1); along `t` = 0..L: `accuracy`, the share of right states;
    `recursion`, what the assumed B makes of A_t.

    >>> from cotflow import Task
    >>> cfg = Config.preset("smoke")
    >>> steps = rollout_steps(cfg, Params.initial(cfg, 0), Task(cfg, 0).train)
    >>> dict(steps.sizes)
    {'step': 5, 't': 6}
    """
    generated = rollout(cfg, params, split.actions, split.states[:, 0])
    A_t, B_t = step_accuracies(generated, split.states)
    assumed = wrong_recovery(A_t, cfg.N)
    return xr.Dataset(
        {
            "A_t": ("step", A_t),
            "B_t": ("step", B_t),
            "B_assumed": ("step", assumed),
            "accuracy": ("t", (generated == split.states).mean(axis=0)),
            "recursion": ("t", rollout_recursion(A_t, assumed)),
        },
        coords={"step": np.arange(cfg.L), "t": np.arange(cfg.L + 1)},
    )
