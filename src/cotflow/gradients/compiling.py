"""How kernels are compiled: into a disk cache that knows all their sources, and with one line on the screen."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import event

from . import shared_cache  # noqa: F401  (before anything is compiled)
from .row_types import RowsType


def compiled(**options: Any) -> Callable[[Any], Any]:
    """`numba.njit` without the interpreter's lock and with IEEE division, served from the disk cache after the first time.

    Where no directory can be written, as in a read-only image, kernels are compiled in every process.
    """
    options = {"nogil": True, "error_model": "numpy", **options}

    def decorate(function: Any) -> Any:
        try:
            made = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # Numba finds no place for a cache
            return numba.njit(**options)(function)
        if cache := getattr(made, "_cache", None):  # with the JIT disabled it is the function itself
            file = cache._cache_file
            file._source_stamp = (file._source_stamp, SOURCES)
        return made

    return decorate


def _sources() -> str:
    """A digest of this folder: kernels hold code and constants of other files, of whose changes Numba's cache knows nothing."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


SOURCES = _sources()


class Announcement(event.Listener):
    """Says what is being compiled, once for each width of rows."""

    def __init__(self) -> None:
        self.said: set[str] = set()

    def on_start(self, event: Any) -> None:
        """A function missed in the cache is about to be compiled."""
        home = event.data["dispatcher"].py_func.__module__
        if not home.startswith("cotflow."):
            return
        widths = [rows for rows in event.data["args"] if isinstance(rows, RowsType)][:1]
        if widths:
            [rows] = widths
            self._say(rows.name, f"kernels for rows of {rows.lanes * rows.chunks} {rows.dtype}")
        elif not home.startswith(__package__):
            self._say(home, "the steps of attention")

    def on_end(self, event: Any) -> None:
        """Nothing to say."""

    def _say(self, key: str, what: str) -> None:
        if key not in self.said:
            self.said.add(key)
            print(f"cotflow: compiling {what}, a few seconds, once", file=sys.stderr)


event.register("numba:compile", Announcement())
