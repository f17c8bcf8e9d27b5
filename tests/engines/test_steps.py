"""Engine `steps` is the optimiser that PyTorch would run, taken every step."""

from __future__ import annotations

import math

import numpy as np
import pytest

import cotflow as cf
import oracles
from cotflow.engines import make_engine
from cotflow.errors import Diverged
from cotflow.gradients import backend


def largest_difference(a: cf.Params, b: cf.Params) -> float:
    return max(np.abs(x - dict(b.items())[name]).max() for name, x in a.items())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"weight_decay": 1e-3},
        {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.02},
        {"rope_law": "linear", "init_variance": 0.1},
    ],
    ids=["sgd", "decay", "adamw", "linear law"],
)
def test_full_batch_training_equals_the_oracle(odd, changes):
    cfg = odd.replace(dtype="float64", n_train_seq=80, train_epochs=40, **changes)
    task, start = cf.Task(cfg, 3), cf.Params.initial(cfg, 3)
    run = cf.simulate(cfg, 3, engine="steps")
    expected = oracles.train(cfg, start, task.train, 40)[-1]
    # AdamW divides a gradient by its own size, so rounding in the small ones grows.
    assert largest_difference(cf.Params.of(run), expected) < (1e-9 if cfg.optimizer == "adamw" else 1e-12)


def test_two_hundred_float32_steps_stay_with_the_float64_oracle(odd):
    cfg = odd.replace(n_train_seq=80)
    task, start = cf.Task(cfg, 0), cf.Params.initial(cfg, 0)
    run = cf.simulate(cfg, 0, engine="steps")
    expected = oracles.train(cfg, start, task.train, 200)[-1]
    assert largest_difference(cf.Params.of(run), expected) < 2e-5


def test_recorded_observables_equal_the_oracle(tiny):
    cfg = tiny.replace(dtype="float64", train_epochs=20, n_eval_seq=30)
    task = cf.Task(cfg, 1)
    weights = oracles.train(cfg, cf.Params.initial(cfg, 1), task.train, 20)
    run = cf.simulate(cfg, 1, engine="steps")
    for epoch in (0, 10, 20):
        pi, m = oracles.attention(cfg, weights[epoch].w_q, weights[epoch].w_k), weights[epoch].m
        here = run.sel(epoch=epoch)
        assert np.allclose(here.attention, pi, atol=1e-12)
        for name, value in oracles.order_parameters(pi, m, task.permutations).items():
            assert float(here[name]) == pytest.approx(value, abs=1e-12)
        for split, sequences in (("train", task.train.take(slice(30))), ("test", task.test)):
            for name, value in oracles.statistics(pi, m, sequences).items():
                if (name, split) != ("loss", "train"):
                    assert float(here[name].sel(split=split)) == pytest.approx(value, abs=1e-12), (name, split)
            generated = oracles.rollout(pi, m, sequences.actions, sequences.states[:, 0])
            accuracy = np.mean(generated[:, -1] == sequences.states[:, -1])
            assert float(here.rollout_accuracy.sel(split=split)) == pytest.approx(accuracy, abs=1e-12)
        assert float(here.loss.sel(split="train")) == pytest.approx(oracles.loss(cfg, weights[epoch], task.train), abs=1e-12)
    assert run.attrs["tau"] == pytest.approx(oracles.teacher_overlap(task.permutations), abs=1e-14)


def test_minibatches_visit_every_sequence_once_an_epoch(tiny):
    cfg = tiny.replace(batch_size=24)
    engine = make_engine("steps", cfg, cf.Task(cfg, 0), cf.Params.initial(cfg, 0), backend())
    sizes, rows = [], []
    for batch in engine._batches():
        sizes.append(len(batch))
        rows += [tuple(row) for row in np.hstack([batch.actions, batch.states])]
    everything = [tuple(row) for row in np.hstack([engine.task.train.actions, engine.task.train.states])]
    assert sizes == [24, 24, 16]
    assert sorted(rows) == sorted(everything)
    assert rows != everything


def test_minibatch_training_learns_and_costs_a_gradient_a_batch(tiny):
    cfg = tiny.replace(batch_size=16, train_epochs=30)
    run = cf.simulate(cfg, 0, engine="steps")
    train = run.loss.sel(split="train")
    assert run.attrs["gradients"] == 30 * 4
    assert float(train[-1]) < 0.8 * float(train[0])


def test_gradient_descent_conserves_column_sums_but_adamw_does_not(tiny):
    def drift(cfg: cf.Config) -> float:
        run = cf.simulate(cfg, 0, engine="steps")
        return float(np.abs(run.final_m.sum("next_state") - run.initial_m.sum("next_state")).max())

    cfg = tiny.replace(dtype="float64")
    assert drift(cfg) < 1e-13
    assert drift(cfg.replace(optimizer="adamw", lr=0.01)) > 1e-3


def test_frozen_blocks_keep_their_bits(tiny):
    for freeze, kept, moved in (("attention", "w_q", "m"), ("logic", "m", "w_q")):
        for changes in ({"weight_decay": 0.01}, {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.01}):
            run = cf.simulate(tiny.replace(freeze=freeze, **changes), 0, engine="steps")
            assert np.array_equal(run[f"initial_{kept}"], run[f"final_{kept}"])
            assert not np.array_equal(run[f"initial_{moved}"], run[f"final_{moved}"])


def test_a_diverging_run_says_where_and_keeps_what_it_recorded(tiny):
    cfg = tiny.replace(optimizer="adamw", lr=1e38)
    with pytest.raises(Diverged, match=r"epoch \d+ with lr = 1e\+38 .last finite loss") as failure:
        cf.simulate(cfg, 0, engine="steps")
    partial = failure.value.partial
    assert partial is not None
    assert partial.attrs["status"] == "failed"
    assert math.isfinite(float(partial.loss.sel(split="train")[0]))


def test_training_goes_on_from_a_records_end(tiny):
    cfg = tiny.replace(dtype="float64")
    whole = cf.simulate(cfg, 0, engine="steps")
    half = cf.simulate(cfg.replace(train_epochs=30), 0, engine="steps")
    rest = cf.simulate(cfg.replace(train_epochs=30), 0, engine="steps", params=cf.Params.of(half))
    assert np.array_equal(rest.final_m, whole.final_m)
    assert rest.attrs["started_from"] == "given weights"


def test_snapshots_are_the_weights_of_their_epochs(tiny):
    run = cf.simulate(tiny, 0, engine="steps", save_params=[0, 7, 60])
    shorter = cf.simulate(tiny.replace(train_epochs=7, eval_every=7), 0, engine="steps")
    assert largest_difference(cf.Params.of(run, 7), cf.Params.of(shorter)) == 0
    assert largest_difference(cf.Params.of(run, 0), cf.Params.initial(tiny, 0)) == 0
    assert largest_difference(cf.Params.of(run, 60), cf.Params.of(run)) == 0
    with pytest.raises(ValueError, match=r"epoch = 8 has no saved weights; allowed: \[0, 7, 60\]"):
        cf.Params.of(run, 8)
    with pytest.raises(ValueError, match=r"save_params = \[61\] lies outside the run"):
        cf.simulate(tiny, 0, engine="steps", save_params=[61])


def test_steps_takes_no_tolerances(tiny):
    with pytest.raises(ValueError, match="takes no rtol"):
        cf.simulate(tiny, 0, engine="steps", rtol=1e-3)
