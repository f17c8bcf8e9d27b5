"""One run of an ensemble, as it travels to a worker and comes back."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import xarray as xr

from ..config import Config
from ..engines import simulate
from ..engines.drive import stoppable
from ..errors import BudgetExceeded, Failure, RunFailed
from ..runs import Busy, train

#: Seconds to wait for a seed that another process holds: an orphaned worker leaves within one step and a checkpoint.
PATIENCE = 30.0


@dataclass(frozen=True)
class Job:
    """What a worker needs to know. With a `directory` it keeps lock, checkpoint and record there itself; else the run travels."""

    point: str
    cfg: Config
    seed: int
    options: dict[str, Any] = field(default_factory=dict)
    directory: Path | None = None

    @property
    def cost(self) -> float:
        """Relative cost, for an estimate of the time that is left."""
        per_gradient = self.cfg.n_train_seq * self.cfg.L**2 * max(self.cfg.N, 16)
        return per_gradient * (self.cfg.train_epochs if self.options.get("engine") == "steps" else 150)

    def __str__(self) -> str:
        return f"{self.point} seed {self.seed}" if self.point else f"seed {self.seed}"


@dataclass(frozen=True)
class Outcome:
    """How a job ended. `run` is the trajectory, or the part of a failed one, where it travels back; `error` what kept it from
    being written. `for_good`: the same run would fail again; else its checkpoint is of use with a larger budget.
    """

    status: Literal["done", "failed", "busy", "stopped", "unwritable"]
    run: xr.Dataset | None = None
    cause: str = ""
    error: OSError | None = None
    for_good: bool = True


class Held(Failure):
    """A run that another process has in its hands."""


class Bell:
    """Asks runs to stop. Threads of this process hear it ring; a copy in another process, which hears signals, never rings."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def ring(self) -> None:
        """Ring from now on."""
        self._event.set()

    def rings(self) -> bool:
        """Whether it rings."""
        return self._event.is_set()

    def __reduce__(self) -> tuple[type[Bell], tuple[()]]:
        return Bell, ()


def work_unless(bell: Bell, job: Job) -> Outcome:
    """Run a job; where the bell rings it writes a checkpoint and stops."""
    with stoppable(bell.rings):
        return work(job)


def work(job: Job) -> Outcome:
    """Run a job, in a worker. Every end that a run can come to is an `Outcome`: no exception has to travel."""
    try:
        if job.directory is None:
            return Outcome("done", simulate(job.cfg, job.seed, **job.options))
        train(job.cfg, job.seed, job.directory, wait=PATIENCE, **job.options)
        return Outcome("done")
    except KeyboardInterrupt as interruption:
        return Outcome("stopped", cause=str(interruption))
    except RunFailed as failure:
        return Outcome("failed", failure.partial, str(failure), for_good=not isinstance(failure, BudgetExceeded))
    except Busy as fault:
        return Outcome("busy", cause=str(fault))
    except OSError as error:
        return Outcome("unwritable" if job.directory else "failed", cause=str(error), error=error)
    except Exception as error:
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        return Outcome("failed", cause=f"{kind}{error}")
