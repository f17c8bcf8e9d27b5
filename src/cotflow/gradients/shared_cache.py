"""Numba's disk cache, made safe for processes that compile at the same time.

Numba numbers the files of a function's specialisations and keeps the numbers in an index, which every process reads, extends and
writes back. Two processes that do so at once may give two specialisations the same number, and one is served the machine code of
the other from then on. Here the index is read and written under a lock. Importing this module is enough.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from filelock import FileLock
from numba.core.caching import IndexDataCacheFile


def _locked(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, run by one process at a time for each index."""

    @functools.wraps(method)
    def call(self: Any, *args: Any) -> Any:
        with _hold(f"{self._index_path}.lock"):
            return method(self, *args)

    return call


def _hold(path: str) -> AbstractContextManager[Any]:
    """The lock, held; nothing where none can be made, as in a cache that is only read."""
    try:
        return FileLock(path).acquire()
    except OSError:
        return nullcontext()


def guard(cache_file: type = IndexDataCacheFile) -> None:
    """Put the lock around loading and saving, once."""
    for name in ("load", "save"):
        method = getattr(cache_file, name)
        if not hasattr(method, "__wrapped__"):
            setattr(cache_file, name, _locked(method))


guard()
