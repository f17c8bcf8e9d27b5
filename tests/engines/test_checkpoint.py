"""Killed at any instant and started again, a run ends with the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import cotflow as cf
from cotflow.files import FileFault
from cotflow.trajectory import VOLATILE

SCRIPT = """
import sys, cotflow as cf
from cotflow.runs import train
cfg = cf.Config.from_toml(sys.argv[1])
train(cfg, 0, sys.argv[2], engine=sys.argv[3], checkpoint_every=0.0, threads=1)
"""


def assert_same_bits(a, b) -> None:
    assert set(a.variables) == set(b.variables)
    for name in a.variables:
        assert a[name].dtype == b[name].dtype
        assert a[name].values.tobytes() == b[name].values.tobytes(), name
    assert {k: v for k, v in a.attrs.items() if k not in VOLATILE} == {k: v for k, v in b.attrs.items() if k not in VOLATILE}


def start(config: Path, out: Path, engine: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(config), str(out), engine], stderr=subprocess.PIPE, text=True)


def wait_for(path: Path, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize(
    "changes",
    [{}, {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.01, "batch_size": 200}],
    ids=["full-batch sgd", "minibatch adamw"],
)
def test_sigkill_and_resume_gives_the_same_bits(tmp_path, odd, changes):
    cfg = odd.replace(train_epochs=240, **changes)
    config = tmp_path / "config.toml"
    config.write_text(cfg.to_toml())
    out = tmp_path / "out"
    kills = 0
    for delay in (0.0, 0.2):
        process = start(config, out, "steps")
        wait_for(out / "seed_0.checkpoint.npz", process)
        time.sleep(delay)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
    final = start(config, out, "steps")
    assert final.wait() == 0, final.stderr.read()
    assert kills > 0, "the run ended before it could be killed"
    undisturbed = cf.simulate(cfg, 0, engine="steps", threads=1)
    assert_same_bits(cf.load(out / "seed_0.npz"), undisturbed)
    assert not list(out.glob("*.checkpoint.npz"))
    assert not list(out.glob(".seed_*.tmp"))


def test_ctrl_c_checkpoints_and_says_how_to_go_on(tmp_path, odd):
    cfg = odd.replace(train_epochs=1500)
    config = tmp_path / "config.toml"
    config.write_text(cfg.to_toml())
    out = tmp_path / "out"
    command = [sys.executable, "-m", "cotflow.cli", "train", "--config", str(config), "--dir", str(out), "--engine", "steps"]
    process = subprocess.Popen(
        [*command, "--checkpoint_every", "0.01"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    wait_for(out / "seed_0.checkpoint.npz", process)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted at epoch" in told
    assert "run the same command again to go on from" in told
    assert "Traceback" not in told
    resumed = subprocess.run(command, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    assert_same_bits(cf.load(out / "seed_0.npz"), cf.simulate(cfg, 0, engine="steps"))


def test_a_checkpoint_of_another_run_is_refused(tmp_path, tiny):
    def interrupt(progress) -> None:
        if progress.epoch >= 20:
            os.kill(os.getpid(), signal.SIGINT)

    file = tmp_path / "rest.npz"
    with pytest.raises(KeyboardInterrupt):
        cf.simulate(tiny, 0, engine="steps", checkpoint=file, progress=interrupt)
    with pytest.raises(FileFault, match=r"belongs to another run \(lr = 0.5, now 0.25\)"):
        cf.simulate(tiny.replace(lr=0.25), 0, engine="steps", checkpoint=file)
    with pytest.raises(FileFault, match=r"start = "):
        cf.simulate(tiny, 0, engine="steps", checkpoint=file, params=cf.Params.initial(tiny, 5))
    resumed = cf.simulate(tiny, 0, engine="steps", checkpoint=file)
    assert np.array_equal(resumed.final_m, cf.simulate(tiny, 0, engine="steps").final_m)
