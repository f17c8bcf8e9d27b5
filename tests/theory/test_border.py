"""What the theory refuses, and what it hands back."""

from __future__ import annotations

import numpy as np
import pytest

import cotflow as cf
from cotflow.errors import RunFailed
from cotflow.theory import TIERS, solve
from cotflow.theory.integrate import along

SMOKE = cf.Config.preset("smoke")
OPTIONS = {"quenched": {"seed": 0}, "column": {"seed": 0, "contexts": 16}}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    ("field", "value"), [("optimizer", "adamw"), ("batch_size", 64), ("fix_embedding", False), ("d_model", 2)]
)
def test_every_tier_refuses_what_it_cannot_represent_in_one_sentence(tier, field, value):
    with pytest.raises(ValueError, match=field) as refusal:
        solve(tier, SMOKE.replace(**{field: value}), **OPTIONS.get(tier, {}))
    assert tier in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_papers_theory_refuses_weight_decay_and_chains_of_one_step():
    with pytest.raises(ValueError, match=r"weight_decay = 0\.1"):
        solve("closure", SMOKE.replace(weight_decay=0.1))
    with pytest.raises(ValueError, match="L = 1"):
        solve("closure", SMOKE.replace(L=1))


@pytest.mark.parametrize("tier", TIERS)
def test_every_tier_returns_a_trajectory_that_can_be_saved(tier, tmp_path):
    th = solve(tier, SMOKE, **OPTIONS.get(tier, {}))
    assert th.attrs["engine"] == f"theory-{tier}"
    assert list(th.epoch.values) == SMOKE.eval_epochs
    assert th.alpha.values == pytest.approx(np.array(SMOKE.eval_epochs) / 64)
    assert "split" not in th.dims
    back = cf.load(cf.save(th, tmp_path / "theory.npz"))
    assert back.identical(th)
    assert cf.config_of(back) == SMOKE


@pytest.mark.parametrize("tier", ["quenched", "column"])
@pytest.mark.parametrize(
    "cfg",
    [
        SMOKE.replace(L=1),
        SMOKE.replace(N=2, d_g=2),
        SMOKE.replace(N=3, vocabulary="symmetric"),
        SMOKE.replace(d_g=1),
        SMOKE.replace(init_variance=0.0),
        SMOKE.replace(train_epochs=0, eval_every=1),
        SMOKE.replace(train_epochs=130, eval_every=50),
        SMOKE.replace(n_train_seq=3),
    ],
    ids=["L=1", "N=2", "S_3", "d_g=1", "no-variance", "no-epochs", "uneven", "3-sequences"],
)
def test_degenerate_sizes_have_finite_solutions(tier, cfg):
    th = solve(tier, cfg, **OPTIONS[tier])
    for name in th.data_vars:
        assert np.isfinite(th[name].values).all(), name


def test_bad_options_name_themselves():
    for tier, options, words in [
        ("closed", {}, "tier = 'closed'"),
        ("closure", {"power": 3}, "power = 3"),
        ("quenched", {"noise": "none", "seed": 0}, "noise = 'none'"),
        ("quenched", {"data": "all", "seed": 0}, "data = 'all'"),
        ("quenched", {"draws": 0}, "draws = 0"),
        ("quenched", {"draws": -5, "seed": 0}, "draws = -5"),
        ("quenched", {"seed": np.array(3)}, "seed = array"),
        ("column", {"rng": "x", "seed": 0}, "rng = 'x'"),
        ("quenched", {"seed": []}, "seed = "),
        ("column", {"contexts": -1, "seed": 0}, "contexts = -1"),
        ("column", {"seed": -4}, "seed = -4"),
    ]:
        with pytest.raises(ValueError, match=words):
            solve(tier, SMOKE, **options)


def test_a_single_action_has_no_other_overlap():
    cfg = cf.Config(N=5, d_g=1, L=4, d_h=4, n_train_seq=50, train_epochs=200, eval_every=20)
    for tier in ("closure", "early", "onset"):
        assert (solve(tier, cfg).S == 0).all()


def test_drawn_seeds_are_different_and_the_same_every_time():
    class Coarse(np.random.Generator):
        """Draws from a handful of seeds."""

        def integers(self, low, high=None, size=None, **options):
            return super().integers(low, low + 4, size, **options)

    cfg = SMOKE.replace(train_epochs=1, eval_every=1)
    drawn = cf.theory.quenched(cfg, draws=4, rng=Coarse(np.random.PCG64(0)), data="population")
    assert sorted(drawn.seed.values - 2**31) == [0, 1, 2, 3]
    assert cf.theory.quenched(cfg, draws=3).A.identical(cf.theory.quenched(cfg, draws=3).A)


def test_a_solver_that_does_not_get_through_says_where_it_stopped():
    with pytest.raises(RunFailed, match=r"beyond alpha = (0\.9|1)"), np.errstate(all="ignore"):
        list(along(lambda alpha, y: y * y, np.ones(1), np.array([0.0, 2.0]), rtol=1e-8, atol=1e-10))
    with pytest.raises(RunFailed, match="more than 50 right-hand sides"):
        list(along(lambda alpha, y: -1e4 * y, np.ones(1), np.array([0.0, 2.0]), rtol=1e-8, atol=1e-10, budget=50))
