"""One seed in a directory: what is refused leaves nothing behind, what is damaged is set aside, what diverges is not done."""

from __future__ import annotations

import numpy as np
import pytest

import cotflow as cf
from cotflow.errors import Diverged


@pytest.mark.parametrize("changes", [{}, {"batch_size": 16}], ids=["full batch", "minibatch"])
def test_a_run_that_diverges_in_its_last_step_is_not_done(tiny, changes):
    cfg = tiny.replace(lr=1e25, weight_decay=0.1, train_epochs=2, eval_every=1, **changes)
    with pytest.raises(Diverged, match=r"no longer finite at epoch \d with lr = 1e\+25 \(last finite loss: \d") as failure:
        cf.simulate(cfg, 0, engine="steps")
    assert np.isfinite(failure.value.partial.loss).all()
    assert failure.value.partial.attrs["status"] == "failed"


def test_weights_that_are_not_finite_are_not_kept_as_a_snapshot(tiny):
    cfg = tiny.replace(lr=1e25, weight_decay=0.1, train_epochs=4, eval_every=4)
    with pytest.raises(Diverged):
        cf.simulate(cfg, 0, engine="steps", save_params=[2])


def test_a_loss_that_is_never_finite_is_not_blamed_on_the_learning_rate(tiny):
    with pytest.raises(Diverged, match="not finite at the start, before any step; smaller initial weights"):
        cf.simulate(tiny.replace(init_variance=3e76), 0, engine="steps")
