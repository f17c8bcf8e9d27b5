"""Config: the paper's tables, refusals that name field, value and what is allowed, and a hash that everything affects."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cotflow import Config

# Every field changed alone, from a config in which that is possible.
CHANGES = {
    "N": 16,
    "L": 7,
    "d_g": 12,
    "d_h": 8,
    "d_model": 2,
    "n_train_seq": 4096,
    "n_test_seq": 100,
    "n_eval_seq": 10,
    "batch_size": 512,
    "optimizer": "adamw",
    "lr": 0.25,
    "weight_decay": 0.01,
    "rope_theta": 100.0,
    "rope_law": "linear",
    "train_epochs": 1000,
    "eval_every": 10,
    "fix_embedding": False,
    "dtype": "float64",
    "vocabulary": "cyclic",
    "init_variance": 0.1,
    "freeze": "logic",
}


def test_presets_are_the_papers_tables():
    """Tables of Appendices A and I of the paper."""
    main, other = Config.preset("main"), Config.preset("robustness")
    table = {"N": 32, "L": 10, "d_g": 32, "d_model": 1, "d_h": 128, "n_train_seq": 32768, "n_test_seq": 256}
    table |= {"batch_size": 32768, "lr": 0.5, "weight_decay": 0.0, "rope_theta": 1e4, "train_epochs": 20000, "eval_every": 50}
    table |= {"optimizer": "sgd", "fix_embedding": True, "rope_law": "power-2pi"}
    assert {key: getattr(main, key) for key in table} == table
    table |= {"N": 24, "d_g": 24, "d_h": 8, "n_test_seq": 128, "train_epochs": 16000, "rope_law": "power"}
    assert {key: getattr(other, key) for key in table} == table
    assert main.full_batch
    assert other.full_batch


def test_training_time_is_epochs_over_d_g_N():
    cfg = Config.preset("main")
    assert cfg.alpha_per_epoch * 20_000 == pytest.approx(19.53125)


@pytest.mark.parametrize(
    ("fields", "field", "allowed"),
    [
        ({"N": 1}, "N = 1 ", "greater than or equal to 2"),
        ({"N": 2.5}, "N = 2.5", "integer"),
        ({"lr": 0}, "lr = 0", "greater than 0"),
        ({"lr": float("nan")}, "lr = nan", "finite"),
        ({"optimizer": "adam"}, "optimizer = 'adam'", "'sgd' or 'adamw'"),
        ({"rope_law": "log"}, "rope_law = 'log'", "'linear'"),
        ({"dtype": "float16"}, "dtype = 'float16'", "'float64'"),
        ({"freeze": "all"}, "freeze = 'all'", "'attention'"),
        ({"learning_rate": 0.1}, "unknown field 'learning_rate'", "lr"),
        ({"d_h": 7}, "d_h = 7", "even"),
        ({"N": 3, "d_g": 7}, "d_g = 7", "1 to 6"),
        ({"batch_size": 65_536}, "batch_size = 65536", "1 to 32768"),
        ({"eval_every": 30_000}, "eval_every = 30000", "1 to 20000"),
        ({"N": 5, "vocabulary": "cyclic", "d_g": 4}, "d_g = 4", "d_g = 5"),
        ({"N": 12, "vocabulary": "symmetric"}, "N = 12", "too large"),
        ({"vocabulary": [[0, 1], [1, 1]]}, "vocabulary row 1", "permutation of 0 to 1"),
        ({"vocabulary": [[0, 1], [0, 1]]}, "vocabulary row 1", "distinct"),
        ({"vocabulary": "nowhere.csv"}, "vocabulary = 'nowhere.csv'", "'symmetric'"),
        ({"vocabulary": "symmetric", "N": -1}, "N = -1", "2"),
        ({"L": True}, "L = True", "a number"),
        ({"d_g": 70_000}, "d_g = 70000", "65536"),
        ({"N": 4096, "d_g": 4096}, "d_g = 4096", "2,147,483,648 at most"),
        ({"train_epochs": 10**12}, "eval_every = 50", "10,000,000 at most"),
    ],
)
def test_a_bad_value_is_refused_by_name_with_what_is_allowed(fields, field, allowed):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is what is tested
        Config(**fields)
    message = str(error.value)
    assert field in message
    assert allowed in message
    assert "\n" not in message


def test_a_config_cannot_be_changed_in_place():
    with pytest.raises(ValidationError, match="frozen"):
        Config().N = 3  # type: ignore[misc]


def test_replace_keeps_full_batch_full_and_checks_again():
    cfg = Config.preset("main").replace(n_train_seq=100)
    assert cfg.batch_size == 100
    mini = Config.preset("main", batch_size=64).replace(n_train_seq=1000)
    assert mini.batch_size == 64
    with pytest.raises(ValueError, match="lr"):
        cfg.replace(lr=-1)


def test_every_field_changes_the_hash():
    assert set(CHANGES) == set(Config.model_fields)
    hashes = {field: Config().replace(**{field: value}).hash for field, value in CHANGES.items()}
    assert len({Config().hash, *hashes.values()}) == len(hashes) + 1


def test_the_hash_is_pinned():
    """It may change with the fields alone; no machine and no version of a library has another."""
    assert Config.preset("main").hash == "7dbf5a0554b33f71"


@pytest.mark.parametrize(("field", "value"), CHANGES.items())
def test_toml_gives_back_the_same_config(tmp_path, field, value):
    cfg = Config.preset("main").replace(**{field: value})
    path = tmp_path / "config.toml"
    path.write_text(cfg.to_toml())
    again = Config.from_toml(path)
    assert again == cfg
    assert again.hash == cfg.hash
    changed = {"d_g", field} if field == "vocabulary" else {"batch_size", field} if field == "n_train_seq" else {field}
    assert set(cfg.difference(Config.preset("main"))) <= changed


def test_toml_may_start_from_a_preset_and_names_a_file_it_cannot_read(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('preset = "robustness"\nlr = 0.25\n')
    assert Config.from_toml(path) == Config.preset("robustness", lr=0.25)
    path.write_text("lr = = 1")
    with pytest.raises(ValueError, match=r"config\.toml"):
        Config.from_toml(path)


def test_a_vocabulary_may_lie_beside_its_toml_file(tmp_path):
    (tmp_path / "mine.txt").write_text("1 0 2\n0 2 1\n")
    path = tmp_path / "config.toml"
    path.write_text('vocabulary = "mine.txt"\n')
    assert Config.from_toml(path).vocabulary == ((1, 0, 2), (0, 2, 1))
    path.write_bytes(b'rope_law = "\xff"\n')
    with pytest.raises(ValueError, match=r"cannot read the configuration .*config\.toml"):
        Config.from_toml(path)


def test_a_group_takes_its_order_from_N_however_that_is_written():
    for N in (4, "4", 4.0):
        assert Config(vocabulary="symmetric", N=N).d_g == 24


@given(st.integers(0, 500), st.integers(1, 500))
def test_evaluation_starts_at_zero_and_ends_with_the_run(train_epochs, eval_every):
    if 0 < train_epochs < eval_every:
        return
    epochs = Config(train_epochs=train_epochs, eval_every=eval_every).eval_epochs
    assert (epochs[0], epochs[-1]) == (0, train_epochs)
    assert np.all(np.diff(epochs) > 0)
    assert np.all(np.diff(epochs) <= eval_every)
