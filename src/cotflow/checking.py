"""What a check is: a named measurement with a limit, made on runs that several checks share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import xarray as xr

from .config import Config
from .engines import simulate


class Result(NamedTuple):
    """How a check ended; `ok` is None where it was skipped, and `note` says why, or what went wrong."""

    name: str
    measured: float
    limit: float
    ok: bool | None
    note: str = ""


class Skipped(Exception):
    """Raised by a check that cannot be made here."""


@dataclass(frozen=True)
class Check:
    """A named measurement that passes where it does not exceed its limit."""

    name: str
    limit: float
    measure: Callable[[Runs], float]

    def __call__(self, runs: Runs) -> Result:
        """Measure and judge; what raises has failed."""
        try:
            measured = float(self.measure(runs))
        except Skipped as reason:
            return Result(self.name, np.nan, self.limit, None, str(reason))
        except Exception as error:
            return Result(self.name, np.nan, self.limit, False, f"{type(error).__name__}: {error}")
        return Result(self.name, measured, self.limit, bool(measured <= self.limit))


def check(name: str, at_most: float) -> Callable[[Callable[[Runs], float]], Check]:
    """Make a measurement a check."""
    return lambda measure: Check(name, at_most, measure)


class Runs:
    """The simulations that several checks look at, made when first needed."""

    cfg = Config.preset("smoke")
    cfg_large = cfg.replace(n_train_seq=16_384, eval_every=50)

    @cached_property
    def steps(self) -> xr.Dataset:
        """A short training run, every step of it."""
        return simulate(self.cfg, seed=0, engine="steps")

    @cached_property
    def leap(self) -> xr.Dataset:
        """The same run from some hundred gradients."""
        return simulate(self.cfg, seed=0, engine="leap")

    @cached_property
    def flow(self) -> xr.Dataset:
        """Gradient flow in double precision."""
        return simulate(self.cfg.replace(dtype="float64"), seed=0, engine="flow", rtol=1e-8, atol=1e-10)

    @cached_property
    def large(self) -> xr.Dataset:
        """A run with sixteen times the training data: theory is for much of it."""
        return simulate(self.cfg_large, seed=0, engine="leap")
