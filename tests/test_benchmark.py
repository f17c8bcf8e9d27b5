"""The benchmark tells what it timed, relative to the fused kernel; how long things take is no test."""

from __future__ import annotations

import dataclasses
import json

import pytest

from cotflow import Config, benchmark


def test_formulations_are_timed_by_turns_and_scaled_to_all_sequences(tiny, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.setitem(benchmark.FEWER, "literal", 16)
    timings = benchmark.compare(tiny, threads=(1,), rounds=4, names=["bag", "literal"])
    assert [(t.name, t.sequences, t.rounds) for t in timings] == [("fused", 64, 4), ("bag", 64, 4), ("literal", 16, 4)]
    assert timings[0].ratio == 1.0
    assert all(0 < t.low <= t.milliseconds <= t.high for t in timings)
    table = benchmark.report(tiny, timings)
    assert all(benchmark.FORMULATIONS[t.name] in table for t in timings)


def test_powers_of_growth_are_fitted_and_come_with_the_json(tiny):
    one = benchmark.compare(tiny, threads=(1,), rounds=1, names=["fused"])[0]
    series = [dataclasses.replace(one, L=L, milliseconds=0.3 * L**2) for L in (5, 10, 20)]
    told = json.loads(benchmark.report(tiny, [one], {"L": series}, as_json=True))
    assert told["exponents"]["L"] == pytest.approx(2.0, abs=1e-9)
    assert told["gradients"][0]["n"] == tiny.n_train_seq
    assert "L^2.00" in benchmark.report(tiny, [one], {"L": series})


def test_what_does_not_exist_is_refused(tiny):
    with pytest.raises(ValueError, match="formulations = magic"):
        benchmark.compare(tiny, names=["magic"])
    with pytest.raises(ValueError, match="rounds = 0"):
        benchmark.compare(tiny, rounds=0)
    with pytest.raises(ValueError, match="threads is empty"):
        benchmark.compare(tiny, threads=())


def test_what_grows_stays_full_batch_and_a_vocabulary_of_its_own_keeps_its_N():
    small = Config.preset("smoke", batch_size=100)
    assert {name: len(configs) for name, configs in benchmark.grown(small).items()} == {"N": 5, "L": 4, "n": 5}
    assert all(cfg.full_batch for cfg in benchmark.grown(small)["n"])
    assert set(benchmark.grown(Config.preset("smoke", vocabulary="cyclic"))) == {"L", "n"}


def test_the_tables_fit_a_terminal_of_80_columns(tiny):
    one = benchmark.compare(tiny, threads=(1,), rounds=1, names=["fused"])[0]
    slow = [dataclasses.replace(one, name=name, milliseconds=4557.25, low=4400.5, high=4700.5) for name in benchmark.FORMULATIONS]
    text = benchmark.report(Config.preset("main"), slow, {"n": [slow[0], dataclasses.replace(slow[1], n=2 * slow[1].n)]})
    assert max(map(len, text.splitlines())) <= 80
    assert all(name in text for name in benchmark.FORMULATIONS.values())
