"""How many threads a kernel uses, and how its states are shared among them."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import threading
from collections.abc import Callable
from numbers import Integral

import numpy as np

# items that are worth a thread of their own: as long as one takes to start
LEAST = 8192
# threads, at most: more than any machine has, and fewer than libraries break at
MOST = 1024


def resolve(threads: int | None = None) -> int:
    """Number of threads: the keyword, else COTFLOW_THREADS, else OMP_NUM_THREADS, else the cores that this process may use.

    A process that `multiprocessing` started takes one where nothing is said: its siblings have the other cores.
    """
    if threads is not None:
        return _whole("threads", threads)
    if os.environ.get("COTFLOW_THREADS"):
        return _whole("COTFLOW_THREADS", os.environ["COTFLOW_THREADS"])
    others = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # OpenMP's own, which may be a list
    if others.isdecimal() and 1 <= int(others) <= MOST:
        return int(others)
    return 1 if multiprocessing.parent_process() is not None else cores()


def cores() -> int:
    """Cores that the scheduler lets this process run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _whole(name: str, value: int | str) -> int:
    whole = value.strip().isdecimal() if isinstance(value, str) else isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not 1 <= int(value) <= MOST:
        raise ValueError(f"{name} = {value!r} is not allowed; allowed: whole numbers from 1 to {MOST}")
    return int(value)


def each_share(work: Callable[[int, int], None], start: np.ndarray, threads: int | None = None) -> None:
    """Call work(first, last) on contiguous shares of the states, about equally many items each, one share a thread.

    `start` (N+1,) counts the items before each state. Which states fall to which thread does not matter to the result, and few
    items stay with one thread.
    """
    N = len(start) - 1
    count = max(1, min(resolve(threads), N, int(start[-1]) // LEAST))
    cuts = np.searchsorted(start, start[-1] * np.arange(1, count) / count)
    shares = list(itertools.pairwise([0, *cuts.tolist(), N]))
    errors: list[BaseException] = []

    def guarded(first: int, last: int) -> None:
        try:
            work(first, last)
        except BaseException as error:
            errors.append(error)

    others = [threading.Thread(target=guarded, args=share) for share in shares[1:]]
    for thread in others:
        thread.start()
    guarded(*shares[0])
    for thread in others:
        thread.join()
    if errors:
        raise errors[0]
