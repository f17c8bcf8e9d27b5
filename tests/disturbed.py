"""Watching other processes while they are disturbed, and telling whether what they made is what it would have been."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr
from filelock import FileLock, Timeout

import cotflow as cf
from cotflow.trajectory import VOLATILE


def same(a: xr.Dataset, b: xr.Dataset) -> bool:
    """Whether two records have the same bits, but for when and how fast they were made."""
    attrs = [{key: value for key, value in run.attrs.items() if key not in VOLATILE} for run in (a, b)]
    return set(a.variables) == set(b.variables) and attrs[0] == attrs[1] and all(_same_bits(a, b, name) for name in a.variables)


def _same_bits(a: xr.Dataset, b: xr.Dataset, name: object) -> bool:
    x, y = np.asarray(a.variables[name].values), np.asarray(b.variables[name].values)  # type: ignore[index]
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def same_records(directory: Path, other: Path) -> bool:
    """Whether every record of a directory is in the other with the same bits, and nothing but records is in it."""
    litter = [path.name for path in directory.iterdir() if path.name.endswith((".tmp", ".checkpoint.npz"))]
    records = sorted(path.name for path in directory.glob("seed_*.npz"))
    return bool(records) and not litter and all(same(cf.load(directory / name), cf.load(other / name)) for name in records)


def wait_for(happened: Callable[[], object], seconds: float = 60.0) -> None:
    """Look again and again until something is so."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def is_held(lock: Path) -> bool:
    """Whether a process holds a lock."""
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True


def die() -> None:
    """Kill the process that calls this."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(marker: str) -> str:
    """Kill the process that calls this, unless the marker says that this has happened."""
    if not os.path.exists(marker):
        open(marker, "w").close()
        die()
    return "alive"


class Sweep:
    """`cotflow sweep` in a process group of its own, as from a terminal."""

    def __init__(self, grid: Path, out: Path, *flags: object, path: Path | None = None) -> None:
        command = [sys.executable, "-m", "cotflow.cli", "sweep", grid, "--out", out, *flags]
        places = [str(path), os.environ["PATH"]] if path else [os.environ["PATH"]]
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PATH": os.pathsep.join(places)},
        )

    def end(self, seconds: float = 120.0) -> tuple[int, str, str]:
        """Exit code, what it said, and its complaints."""
        said, complaints = self.process.communicate(timeout=seconds)
        return self.process.returncode, said, complaints

    def group(self) -> list[int]:
        """Processes of the group that are alive."""
        alive = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(fields[2]) == self.process.pid and fields[0] != "Z":
                    alive.append(int(entry.name))
        return alive

    def signal_all(self, number: int) -> None:
        """What a terminal does on Ctrl-C."""
        os.killpg(self.process.pid, number)
