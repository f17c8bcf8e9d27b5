"""Processes on this machine that survive each other: one that dies is replaced, and what it was doing is done again."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.resource_tracker import ensure_running
from types import ModuleType
from typing import Any

from ..errors import PoolLost

#: How often a task may take its process down with it before it is held to be the cause.
ATTEMPTS = 3
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_ENDING = (signal.SIGINT, signal.SIGTERM)
_starting = threading.Lock()


class WorkerDied(RuntimeError):
    """A task's process was killed again and again."""


class Processes(Executor):
    """An executor of `workers` processes, each with a pool of its own, so that the death of one leaves the others alone.

    A task whose process dies is run again in a new one, `ATTEMPTS` times in all. `stop()` asks every task to come to an end in
    good order (a run writes its checkpoint); the same happens if this process dies, so none is orphaned.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.deaths = 0
        self._context = multiprocessing.get_context("spawn")
        ensure_running()  # started with the first process it would let Ctrl-C through to that one
        # The far end of this line never hears a word: that the line is cut, by `stop` or by the death of this process, says all.
        self._line, self._our_end = self._context.Pipe(duplex=False)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="cotflow-worker")
        self._own = threading.local()
        self._pools: list[ProcessPoolExecutor] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run fn(*args, **kwargs) in a process as soon as one is free."""
        return self._threads.submit(self._run, fn, args, kwargs)

    def stop(self) -> None:
        """Begin nothing more, and send SIGTERM to whatever runs until it ends."""
        self._our_end.close()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As the standard library's executors do."""
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        for pool in self._pools:
            pool.shutdown(wait)
        self._our_end.close()
        self._line.close()

    def _run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for _ in range(ATTEMPTS):
            if self._our_end.closed:
                raise PoolLost("the worker processes were stopped")
            try:
                with _alone_and_single_threaded():
                    pending = self._pool().submit(_attend, fn, args, kwargs)
                return pending.result()
            except BrokenProcessPool:
                self.deaths += not self._our_end.closed
                self._own.pool = None
        raise WorkerDied(f"its process was killed {ATTEMPTS} times (is there enough memory?)")

    def _pool(self) -> ProcessPoolExecutor:
        """The calling thread's own pool of one process."""
        if getattr(self._own, "pool", None) is None:
            self._own.pool = ProcessPoolExecutor(1, self._context, _begin, (self._line,))
            self._pools.append(self._own.pool)
        return self._own.pool


@contextmanager
def _alone_and_single_threaded() -> Iterator[None]:
    """Start processes that do not import the caller's script, which so needs no `__main__` guard; their BLAS has one thread.

    Ctrl-C, which a terminal sends to all of them, and SIGTERM are held back until `_begin` knows what to do with them.
    """
    with _starting:
        main, missing = sys.modules["__main__"], [name for name in _ONE_THREAD if name not in os.environ]
        sys.modules["__main__"] = ModuleType("__main__")
        os.environ.update(dict.fromkeys(missing, "1"))
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            sys.modules["__main__"] = main
            for name in missing:
                del os.environ[name]


_busy = False


def _begin(line: Connection) -> None:
    """In a new process: leave Ctrl-C and SIGTERM to the run itself, and watch the line to the parent."""
    for number in _ENDING:
        signal.signal(number, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    threading.Thread(target=_watch, args=(line,), daemon=True).start()


def _attend(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    global _busy
    _busy = True
    try:
        return fn(*args, **kwargs)
    finally:
        _busy = False


def _watch(line: Connection) -> None:
    """Once the line is cut, ask the run to stop, over and over as it may only be about to begin; leave if nobody waits for it."""
    with suppress(EOFError, OSError):
        line.recv()
    parent = multiprocessing.parent_process()
    while True:
        if not _busy and (parent is None or not parent.is_alive()):
            os._exit(1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)
