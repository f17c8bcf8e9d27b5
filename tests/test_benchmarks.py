"""Every program under benchmarks/ runs and prints its table; what it measures is not asserted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
COMMANDS = {
    "engines": ["--preset", "smoke", "--seeds", "0", "--tolerances", "1e-3"],
    "ensemble": ["efficiency", "--preset", "smoke", "--seeds", "2"],
    "gradient": ["--preset", "smoke", "--rounds", "1", "--threads", "1", "--formulations", "fused", "bag"],
    "loading": ["--records", "3", "--repeats", "1"],
    "theory_errors": ["cost", "--preset", "smoke", "--seeds", "1"],
}
TOLD = {
    "engines": "leap, plain force",
    "ensemble": "efficiency",
    "gradient": "embedding_bag",
    "loading": "load,",
    "theory_errors": "column",
}


def test_all_are_tried():
    assert sorted(COMMANDS) == sorted(file.stem for file in BENCHMARKS.glob("*.py"))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_benchmark_runs(name, tmp_path):
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *COMMANDS[name]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "COLUMNS": "120"})
    assert done.returncode == 0, done.stderr[-2000:]
    assert TOLD[name] in done.stdout
