"""Ways in which a run, or an ensemble of them, can end before its last epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr


class RunFailed(RuntimeError):
    """A run that could not go on; `partial` is the trajectory up to there, None where nothing was recorded."""

    def __init__(self, message: str, partial: xr.Dataset | None = None) -> None:
        super().__init__(message)
        self.partial = partial

    def __reduce__(self) -> tuple[type, tuple[str, xr.Dataset | None]]:
        return type(self), (str(self), self.partial)


class Diverged(RunFailed):
    """The loss or the gradient ceased to be finite."""


class BudgetExceeded(RunFailed):
    """An adaptive engine needed more gradients than it was allowed."""


class Busy(RuntimeError):
    """Something that another process has in its hands."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C: the run was stopped; the message says how to go on."""


@dataclass(frozen=True)
class Failure:
    """A run of an ensemble that failed: its point ("" where there is one), its seed, and why."""

    point: str
    seed: int
    cause: str


class EnsembleFailed(RuntimeError):
    """Some runs of an ensemble failed; the others are finished, and `results` holds them as `ensemble` would have returned."""

    def __init__(self, message: str, failures: Sequence[Failure] = (), results: Any = None) -> None:
        super().__init__(message)
        self.failures, self.results = list(failures), results


class PoolLost(RuntimeError):
    """Whatever ran an ensemble's workers is gone; what was finished is recorded."""
