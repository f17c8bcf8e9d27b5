"""The notebook runs from top to bottom as a script, without results of its own to show, and marimo has nothing to complain of."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "paper.py"


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)


def test_the_notebook_runs_as_a_script(tmp_path):
    (tmp_path / "notebooks").mkdir()
    copy = shutil.copy(NOTEBOOK, tmp_path / "notebooks")  # away from any results/ beside it
    done = run(sys.executable, copy)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr


def test_marimo_accepts_the_notebook():
    done = run(sys.executable, "-m", "marimo", "check", "--strict", NOTEBOOK)
    assert done.returncode == 0, done.stdout + done.stderr
