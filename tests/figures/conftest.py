"""A few trained seeds of a tiny problem, with every tier of theory."""

from __future__ import annotations

import pytest

import cotflow as cf
from cotflow.trajectory import record_path


@pytest.fixture(scope="session")
def records(tiny, tmp_path_factory):
    """A directory of three seeds, as training leaves it."""
    place = tmp_path_factory.mktemp("records")
    for seed in (0, 1, 4):
        cf.save(cf.simulate(tiny, seed, save_params=[20, 40]), record_path(place, seed))
    return place


@pytest.fixture(scope="session")
def runs(records):
    """The three seeds."""
    return cf.load(records, [0, 1, 4])


@pytest.fixture(scope="session")
def tiers(tiny):
    """The theories of the three seeds."""
    seeds = [0, 1, 4]
    return {
        "closure": cf.theory.closure(tiny),
        "quenched": cf.theory.quenched(tiny, seeds),
        "column": cf.theory.column(tiny, seeds, contexts=64),
    }
