"""Sweep files: what they mean, what is refused, and that those which ship cover the paper's robustness statements."""

from __future__ import annotations

from pathlib import Path

import pytest

import cotflow as cf
from cotflow.ensembles.grid import point_names, read_grid

SWEEPS = Path(__file__).parents[2] / "sweeps"


def write(tmp_path, text: str):
    file = tmp_path / "grid.toml"
    file.write_text(text)
    return read_grid(file)


def test_axes_are_crossed_and_points_are_listed(tmp_path):
    grid = write(tmp_path, 'preset = "smoke"\nseeds = "0:3,7"\nengine = "flow"\nL = 4\n[axes]\nN = [4, 5]\nlr = [0.5, 0.25]\n')
    assert list(grid.points) == ["N=4,lr=0.5", "N=4,lr=0.25", "N=5,lr=0.5", "N=5,lr=0.25"]
    assert grid.points["N=4,lr=0.25"] == cf.Config.preset("smoke", L=4, N=4, lr=0.25)
    assert (grid.seeds, grid.options, grid.axes) == ([0, 1, 2, 7], {"engine": "flow"}, ("N", "lr"))
    listed = write(tmp_path, '[[points]]\nname = "a"\nN = 16\n[[points]]\nN = 8\n[axes]\nlr = [1.0, 2.0]\n')
    assert list(listed.points) == ["a,lr=1", "a,lr=2", "N=8,lr=1", "N=8,lr=2"]
    assert listed.points["a,lr=2"] == cf.Config(N=16, lr=2.0)
    assert list(write(tmp_path, 'preset = "smoke"\n').points) == [""]
    assert write(tmp_path, "seeds = [3, 0, 1]\n").seeds == [0, 1, 3]


def test_training_time_may_be_given_in_alpha(tmp_path):
    points = "[[points]]\nN = 16\nd_g = 16\n[[points]]\nN = 8\nd_g = 8\nalpha_max = 16\n"
    grid = write(tmp_path, "alpha_max = 8\nevaluations = 100\n" + points)
    assert list(grid.points) == ["N=16,d_g=16", "N=8,d_g=8"]
    for cfg, alpha in zip(grid.points.values(), (8, 16), strict=True):
        assert cfg.train_epochs * cfg.alpha_per_epoch == pytest.approx(alpha)
        assert len(cfg.eval_epochs) == pytest.approx(101, abs=5)
    (short,) = write(tmp_path, "train_epochs = 20\nevaluations = 10\n").points.values()  # the preset's eval_every is 50
    assert (short.train_epochs, short.eval_every) == (20, 2)
    (brief,) = write(tmp_path, 'preset = "smoke"\nalpha_max = 0.25\n').points.values()
    assert (brief.train_epochs, brief.eval_every) == (16, 16)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[axes]\nN = 8\n", r"\[axes\] N = 8 is not allowed; allowed: a list"),
        ("[axes]\nN = [8, 16]\nlr = []\n", r"\[axes\] lr = \[\] is not allowed; allowed: a list of one value or more"),
        ("axes = 3\n", r"\[axes\] must be a table of lists"),
        ('name = "mine"\n', r"name is for \[\[points\]\]"),
        ('[axes]\nname = ["a", "b"]\n', r"name is for \[\[points\]\]"),
        ("cls = 3\n", "unknown field 'cls'; allowed: N, "),
        ("[axes]\nN = [8, 8]\n", "the point N=8 is there twice"),
        ("colour = 3\n", "unknown field 'colour'"),
        ("[axes]\nlr = [0.5, -1.0]\n", r"lr = -1\.0 is not allowed"),
        ("alpha_max = 3\ntrain_epochs = 100\n", "alpha_max and train_epochs exclude each other"),
        ("alpha_max = 3\ntrain_epochs = 4\n", "alpha_max and train_epochs exclude each other"),
        ("alpha_max = true\n", "alpha_max = True is not allowed; allowed: numbers above 0"),
        ("alpha_max = 0.01\neval_every = 100\n", "eval_every = 100 exceeds train_epochs = 10"),
        ("evaluations = 5\ntrain_epochs = inf\n", "train_epochs = inf is not allowed"),
        ('seeds = "a"\n', "seeds = 'a' is not allowed"),
        ("seeds = [0, -1]\n", "seed = -1 is not allowed"),
        ("seeds = []\n", r"seeds = '\[\]' is not allowed"),
        ("N = \n", "cannot read the sweep"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        write(tmp_path, text)
    assert "grid.toml" in str(caught.value)


def test_names_of_points_say_in_what_they_differ(tiny):
    assert point_names([tiny, tiny.replace(lr=0.25, rope_law="linear")]) == [
        "lr=0.5,rope_law=power-2pi",
        "lr=0.25,rope_law=linear",
    ]
    own = tiny.replace(vocabulary=[[1, 0, 2, 4, 3], [0, 1, 2, 3, 4]])
    first, second = point_names([tiny, own])
    assert "vocabulary=random" in first
    assert "/" not in second
    assert len(second) < 100
    with pytest.raises(ValueError, match="the same configuration twice"):
        point_names([tiny, tiny])


def test_names_that_no_file_system_takes_are_cut_and_stay_different(tiny, tmp_path):
    every = [tiny.replace(lr=lr).to_toml().replace('"random"', '"cyclic"').replace("d_g = 4", "d_g = 5") for lr in (0.5, 0.25)]
    grid = write(tmp_path, "".join(f"[[points]]\n{fields}" for fields in every))
    first, second = grid.points
    assert first != second
    assert first.startswith("N=5,L=3,d_g=5,d_h=6,")
    for name in grid.points:
        (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match="is there twice"):
        write(tmp_path, f"[[points]]\n{every[0]}[[points]]\n{every[0]}")


@pytest.mark.parametrize(
    "name",
    ["../up", "a\\b", "", ".", "..", ".hidden", "seed_7.npz", "seed_7.failed.txt", "ensemble.json", "config.toml", "grid.toml",
     "summary.csv", "theory", "bell\a", "two\nlines", "x" * 201, 3],
)  # fmt: skip
def test_a_point_is_not_named_like_a_file_that_is_written(tiny, tmp_path, name):
    with pytest.raises(ValueError, match="a point may not be named"):
        cf.ensemble({name: tiny}, [0], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def values(name: str, field: str) -> set:
    return {getattr(cfg, field) for cfg in read_grid(SWEEPS / f"{name}.toml").points.values()}


def test_the_grids_that_ship_cover_what_the_paper_says_was_tried():
    assert {8, 32} <= values("vocabulary_and_states", "N") & values("vocabulary_and_states", "d_g")
    assert {5, 20} <= values("steps", "L")
    assert {8, 128} <= values("head_dimension", "d_h")
    assert min(values("head_dimension", "d_h")) < 8  # fewer frequencies limit learnability
    assert values("frequencies", "rope_law") == {"power-2pi", "power", "linear"}
    assert len(values("learning_rate", "lr")) >= 4
    assert len(values("rope_base", "rope_theta")) >= 4
    assert max(values("training_set", "n_train_seq")) >= 32 * min(values("training_set", "n_train_seq"))
    limit = read_grid(SWEEPS / "thermodynamic_limit.toml").points.values()
    assert {(cfg.d_g / cfg.N, cfg.N / cfg.L, cfg.d_h / cfg.L) for cfg in limit} == {(1.0, 3.2, 12.8)}
    assert {cfg.n_train_seq * cfg.L / (cfg.d_g * cfg.N**2) for cfg in limit} == {10.0}
    for file in SWEEPS.glob("*.toml"):
        assert len(read_grid(file).points) >= 4, file
