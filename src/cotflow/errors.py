"""Ways in which a run can end before its last epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


class Interrupted(KeyboardInterrupt):
    """Ctrl-C: the run was stopped; the message says how to go on."""
