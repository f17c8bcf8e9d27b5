"""One line on the screen when a kernel is compiled, which takes seconds, and not when it comes from the disk cache."""

from __future__ import annotations

import sys
from typing import Any

from numba.core import event

from .row_types import RowsType


class Announcement(event.Listener):
    """Says what is being compiled, once for each width of rows."""

    def __init__(self) -> None:
        self.said: set[str] = set()

    def on_start(self, event: Any) -> None:
        """A function missed in the cache is about to be compiled."""
        if not event.data["dispatcher"].py_func.__module__.startswith(__package__):
            return
        for rows in event.data["args"]:
            if isinstance(rows, RowsType) and rows.name not in self.said:
                self.said.add(rows.name)
                width = rows.lanes * rows.chunks
                print(f"cotflow: compiling kernels for rows of {width} {rows.dtype}, a few seconds, once", file=sys.stderr)
            if isinstance(rows, RowsType):
                return

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


event.register("numba:compile", Announcement())
