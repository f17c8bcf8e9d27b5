"""Small ensembles and the watching of other processes that their tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

import cotflow as cf
from disturbed import Sweep


@pytest.fixture(scope="session")
def brief() -> cf.Config:
    """A run of a second or so, so that there is time to disturb it."""
    return cf.Config(N=5, L=3, d_g=4, d_h=6, n_train_seq=64, n_test_seq=16, train_epochs=4000, eval_every=200)


@pytest.fixture(scope="session")
def undisturbed(brief, tmp_path_factory) -> Path:
    """Records of seeds 0 to 4 made one after the other in one process that nothing befell."""
    directory = tmp_path_factory.mktemp("undisturbed")
    for seed in range(5):
        cf.save(cf.simulate(brief, seed, engine="steps", threads=1), directory / f"seed_{seed}.npz")
    return directory


@pytest.fixture
def sweep(request):
    """Start sweeps; none outlives the test."""
    started: list[Sweep] = []

    def start(*arguments: object, **options: object) -> Sweep:
        started.append(Sweep(*arguments, **options))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.signal_all(9)
            each.process.communicate()


@pytest.fixture
def grid(tmp_path, brief) -> Path:
    """A sweep of one point that is `brief`, seeds 0 to 4, with a checkpoint every tenth of a second."""
    file = tmp_path / "grid.toml"
    file.write_text('engine = "steps"\nseeds = "0:5"\ncheckpoint_every = 0.1\n' + brief.to_toml())
    return file
