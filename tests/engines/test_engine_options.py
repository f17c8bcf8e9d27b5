"""Options that say how a run is made."""

from __future__ import annotations

import inspect

import cotflow as cf
from cotflow.engines.options import NAMES


def test_they_are_those_of_simulate():
    assert {"cfg", "seed", "params", "checkpoint", "progress"} | NAMES == set(inspect.signature(cf.simulate).parameters)
