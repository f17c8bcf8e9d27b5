"""Engine `leap` gives the curves of engine `steps`, at a price set by its tolerance."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import cotflow as cf
from cotflow.engines import make_engine
from cotflow.engines.steps import Steps
from cotflow.errors import BudgetExceeded, Diverged
from cotflow.gradients import backend
from cotflow.gradients.backends import Fused
from cotflow.observables import order_parameters
from cotflow.trajectory import VOLATILE

SMOOTH = ("A", "R", "S", "loss", "mu_k", "mu_o", "var_k", "var_o", "zeta", "attention")
ACCURACIES = ("next_token_accuracy", "rollout_accuracy")


@pytest.fixture(scope="module")
def cfg() -> cf.Config:
    """Locks in within 600 epochs; float64, so that rounding does not hide the error that a tolerance leaves."""
    return cf.Config.preset("smoke", n_train_seq=256, n_test_seq=64, train_epochs=800, dtype="float64")


@pytest.fixture(scope="module")
def exact(cfg):
    return cf.simulate(cfg, 0, engine="steps", threads=1)


def difference(a, b, name: str) -> float:
    return float(np.abs(a[name] - b[name]).max())


def test_held_at_one_epoch_it_is_engine_steps(odd):
    cfg = odd.replace(dtype="float64", n_train_seq=100, weight_decay=1e-3)
    task, start, made = cf.Task(cfg, 1), cf.Params.initial(cfg, 1), backend("fused", 1)
    leap, steps = (make_engine(name, cfg, task, start, made) for name in ("leap", "steps"))
    leap.adams.max_step = 1
    for _ in range(60):
        leap.advance()
        steps.advance()
    for name, value in leap.params.items():
        assert np.abs(value - dict(steps.params.items())[name]).max() < 1e-14, name


@pytest.mark.parametrize(("tolerance", "allowed"), [(1e-4, 4e-4), (1e-6, 4e-6), (1e-8, 4e-8)])
def test_over_a_whole_run_its_distance_to_steps_is_set_by_the_tolerance(cfg, exact, tolerance, allowed):
    leap = cf.simulate(cfg, 0, engine="leap", rtol=tolerance, atol=tolerance, threads=1)
    assert exact.A[-1] > 0.9
    for name in ("A", "R", "S"):
        assert difference(leap, exact, name) < allowed, name
    for name in SMOOTH:
        assert difference(leap, exact, name) < 20 * allowed, name
    for name in ACCURACIES:
        # a sample counts where rounding or tolerance turns an argmax
        assert difference(leap, exact, name) <= (2 / 64 if tolerance > 1e-5 else 0), name
    assert leap.attrs["gradients"] < 200
    assert leap.attrs["gradients"] == leap.attrs["steps"] + leap.attrs["rejected"] + 1
    assert sum(leap.attrs["orders"]) == leap.attrs["steps"]
    assert leap.attrs["status"] == "done"


@pytest.mark.parametrize(
    "changes",
    [{"weight_decay": 2e-3}, {"freeze": "attention"}, {"freeze": "logic", "weight_decay": 1e-3}],
    ids=["decay", "attention frozen", "logic frozen, decay"],
)
def test_weight_decay_and_frozen_blocks_are_those_of_steps(cfg, changes):
    cfg = cfg.replace(train_epochs=300, **changes)
    steps = cf.simulate(cfg, 2, engine="steps", threads=1)
    leap = cf.simulate(cfg, 2, engine="leap", rtol=1e-6, atol=1e-6, threads=1)
    for name in ("A", "R", "S", "loss", "zeta"):
        assert difference(leap, steps, name) < 1e-5, name
    if changes.get("freeze") == "attention":
        assert leap.final_w_q.values.tobytes() == leap.initial_w_q.values.tobytes()
    if changes.get("freeze") == "logic":
        assert leap.final_m.values.tobytes() == leap.initial_m.values.tobytes()


def test_float32_gradients_lead_to_the_same_curves(cfg, exact):
    leap = cf.simulate(cfg.replace(dtype="float32"), 0, engine="leap", threads=1)
    for name in ("A", "R", "S"):
        assert difference(leap, exact, name) < 1e-4, name


def test_sgd_conserves_the_sum_of_every_column_of_m(cfg):
    run = cf.simulate(cfg, 3, engine="leap", threads=1)
    assert np.abs(run.final_m.sum("next_state") - run.initial_m.sum("next_state")).max() < 1e-12


def test_weights_at_any_epoch_and_the_loss_there(cfg, exact):
    run = cf.simulate(cfg, 0, engine="leap", rtol=1e-7, atol=1e-7, save_params=[137, 411], threads=1)
    steps = cf.simulate(cfg.replace(train_epochs=411, eval_every=137), 0, engine="steps", save_params=[137], threads=1)
    for epoch in (137, 411):
        assert np.abs(cf.Params.of(run, epoch).m - cf.Params.of(steps, epoch).m).max() < 1e-6
    train = run.loss.sel(split="train")
    assert np.abs(train - exact.loss.sel(split="train")).max() < 1e-5


@pytest.mark.parametrize("engine", ["leap", "flow"])
def test_interrupted_and_taken_up_again_it_ends_with_the_same_bits(tmp_path, tiny, engine):
    file = tmp_path / "rest.npz"

    def interrupt(progress) -> None:
        if progress.epoch == 20:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="interrupted at epoch"):
        cf.simulate(tiny, 0, engine=engine, checkpoint=file, progress=interrupt, save_params=[33])
    resumed = cf.simulate(tiny, 0, engine=engine, checkpoint=file, save_params=[33])
    undisturbed = cf.simulate(tiny, 0, engine=engine, save_params=[33])
    for name in undisturbed.variables:
        assert resumed[name].values.tobytes() == undisturbed[name].values.tobytes(), name
    for key in set(undisturbed.attrs) - set(VOLATILE):
        assert resumed.attrs[key] == undisturbed.attrs[key], key


@pytest.mark.parametrize("engine", ["leap", "flow"])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"batch_size": 100}, "batch_size = 100 cannot be represented by engine .* minibatches"),
        ({"optimizer": "adamw", "lr": 0.01}, "optimizer = 'adamw' cannot be represented by engine"),
        ({"fix_embedding": False}, "fix_embedding = False cannot be represented by engine"),
    ],
)
def test_it_refuses_what_it_cannot_stand_for(cfg, engine, changes, reason):
    with pytest.raises(ValueError, match=reason):
        cf.simulate(cfg.replace(**changes), 0, engine=engine, backend="torch" if "fix_embedding" in changes else "fused")


def test_bad_tolerances_and_exhausted_budgets_are_told(cfg):
    for wrong in ({"rtol": -1}, {"atol": np.inf}, {"rtol": "1e-5"}, {"max_gradients": True}):
        [(name, value)] = wrong.items()
        with pytest.raises(ValueError, match=f"{name} = {value!r} is not allowed; allowed: "):
            cf.simulate(cfg, 0, **wrong)
    with pytest.raises(BudgetExceeded, match=r"20 gradients are spent at epoch .* of 800; raise max_gradients") as failure:
        cf.simulate(cfg, 0, max_gradients=20, threads=1)
    assert failure.value.partial is not None
    partial = failure.value.partial
    assert 0 < partial.epoch[-1] < 800
    last = cf.Params.of(partial)
    assert order_parameters(cf.Task(cfg, 0).permutations, last.m) == pytest.approx(
        (float(partial.R[-1]), float(partial.S[-1])), rel=1e-12
    )


def test_with_a_larger_budget_a_run_goes_on(tiny, tmp_path):
    file, aims = tmp_path / "rest.npz", {"rtol": 1e-7, "atol": 1e-7}
    with pytest.raises(BudgetExceeded):
        cf.simulate(tiny, 0, max_gradients=12, checkpoint=file, **aims)
    resumed = cf.simulate(tiny, np.int64(0), max_gradients=np.int64(500), checkpoint=file, checkpoint_every=0.0, **aims)
    undisturbed = cf.simulate(tiny, 0, **aims)
    assert resumed.final_m.values.tobytes() == undisturbed.final_m.values.tobytes()
    assert resumed.A.values.tobytes() == undisturbed.A.values.tobytes()


def test_weights_that_are_not_finite_are_refused(tiny):
    start = cf.Params.initial(tiny, 0)
    start.m[1, 2, 0] = np.nan
    with pytest.raises(ValueError, match=r"params\.m holds 1 weights that are not finite"):
        cf.simulate(tiny, 0, params=start)


def test_the_loss_is_that_of_steps_where_decay_outweighs_it(cfg):
    changes = {"freeze": "logic", "weight_decay": 1.5, "train_epochs": 60, "eval_every": 5}
    steps, leap = (cf.simulate(cfg.replace(**changes), 0, engine=name, threads=1) for name in ("steps", "leap"))
    assert difference(leap.loss.sel(split="train").to_dataset(), steps.loss.sel(split="train").to_dataset(), "loss") < 1e-4


class Counting(Fused):
    """A backend whose gradient was replaced, and counts."""

    name = "counting"

    def __init__(self) -> None:
        super().__init__(1)
        self.calls = 0

    def loss_and_gradient(self, cfg, params, split):
        self.calls += 1
        return super().loss_and_gradient(cfg, params, split)


@pytest.mark.parametrize("engine", ["leap", "flow"])
def test_ones_own_gradient_is_the_one_that_is_used(tiny, engine):
    own = Counting()
    run = cf.simulate(tiny, 0, engine=engine, backend=own)
    assert own.calls >= run.attrs["gradients"] > 1
    assert difference(run, cf.simulate(tiny, 0, engine=engine), "A") < 1e-4


class Sharp(Fused):
    """Attends more sharply than its weights say."""

    def attention(self, cfg, params, split):
        pi = super().attention(cfg, params, split) ** 2
        return pi / pi.sum(axis=1, keepdims=True)


def test_ones_own_attention_is_the_one_that_is_used(tiny):
    cfg = tiny.replace(train_epochs=300, eval_every=50)
    leap, steps = (cf.simulate(cfg, 0, engine=engine, backend=Sharp(1)) for engine in ("leap", "steps"))
    assert difference(leap, steps, "A") < 1e-4
    assert difference(steps, cf.simulate(cfg, 0, engine="steps"), "A") > 5e-3


def test_a_gradient_replaced_in_the_object_itself_is_used(tiny):
    own, calls = Fused(1), []

    def counted(cfg, params, split):
        calls.append(1)
        return Fused(1).loss_and_gradient(cfg, params, split)

    own.loss_and_gradient = counted
    run = cf.simulate(tiny, 0, backend=own)
    assert len(calls) == run.attrs["gradients"]


def test_what_an_engine_reports_does_not_take_the_runs_own_names(tiny):
    class Talkative(Steps):
        """Tells its status and a number."""

        def report(self):
            return {"status": "splendid", "patience": 3}

    run = cf.simulate(tiny, 0, engine=Talkative)
    assert (run.attrs["status"], run.attrs["patience"]) == ("done", 3)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"save_params": "55"}, "save_params = '55' is not allowed"),
        ({"save_params": [1.5]}, "save_params = "),
        ({"save_params": 5}, "save_params = 5 is not allowed; allowed: a list of epochs"),
        ({"max_gradients": 30.5}, "max_gradients = 30.5 is not allowed; allowed: whole numbers"),
        ({"engine": None, "backend": 3}, "backend = 3 does not exist"),
        ({"params": {"m": 0}}, "params is of type dict"),
        ({"threads": 2.5}, "threads = 2.5"),
    ],
)
def test_options_are_checked_before_anything_runs(tiny, options, told):
    with pytest.raises(ValueError, match=told):
        cf.simulate(tiny, 0, **options)


def test_a_tolerance_below_rounding_asks_for_no_more_than_rounding():
    cfg = cf.Config.preset("smoke", n_train_seq=64, n_test_seq=16, train_epochs=200, dtype="float64")
    tight = cf.simulate(cfg, 0, engine="flow", atol=1e-30)
    assert tight.attrs["gradients"] < 200
    assert difference(tight, cf.simulate(cfg, 0, engine="flow", rtol=1e-7, atol=1e-7), "A") < 1e-4


def test_divergence_is_that_of_sgd_itself(tiny):
    hot = tiny.replace(weight_decay=100.0)  # every step multiplies the weights by -49
    with pytest.raises(Diverged, match=r"no longer finite at epoch .* a smaller learning rate may help"):
        cf.simulate(hot, 0, engine="leap")
