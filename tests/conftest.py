"""Small problems that many tests share."""

from __future__ import annotations

import os

import pytest

# Problems here are so small that threads of PyTorch only wait for one another; it reads this when it is first imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import cotflow as cf


@pytest.fixture(scope="session")
def tiny() -> cf.Config:
    """A problem that trains in a second or two with any engine."""
    return cf.Config(N=5, L=3, d_g=4, d_h=6, n_train_seq=64, n_test_seq=16, lr=0.5, train_epochs=60, eval_every=10)


@pytest.fixture(scope="session")
def odd() -> cf.Config:
    """Sizes that are neither equal nor multiples of a vector width."""
    return cf.Config(N=8, L=5, d_g=6, d_h=10, n_train_seq=700, n_test_seq=50, train_epochs=200, eval_every=20)
