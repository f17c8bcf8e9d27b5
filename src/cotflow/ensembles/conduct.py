"""The loop that hands jobs to a pool and takes their outcomes, in whatever order they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from queue import Empty, SimpleQueue
from typing import Any

from ..engines.drive import stop_requests
from ..errors import Interrupted, PoolLost
from .jobs import Job, Outcome
from .pools import Pool

#: Seconds between looks at signals and at the pool while nothing happens.
TICK = 0.25


def conduct(
    jobs: Sequence[Job],
    pool: Pool,
    over: Callable[[Job, Outcome], None],
    tick: Callable[[], None],
    halting: Callable[[BaseException, int], None],
) -> None:
    """Run every job to its outcome and hand it to `over`; call `tick` now and then.

    Ctrl-C or SIGTERM stops the pool, waits until running jobs have come to rest and raises `Interrupted`; so does an `OSError`
    of `over`, which is then raised. `halting` is told the reason, and how many runs are waited for. `PoolLost` is raised at once.
    """
    ended: SimpleQueue[Any] = SimpleQueue()
    waiting: dict[Any, Job] = {}
    reason: BaseException | None = None
    looked = time.monotonic()

    def halt(why: BaseException) -> None:
        nonlocal reason
        reason = why
        pool.stop()
        halting(why, sum(not future.done() for future in waiting))

    with stop_requests() as stop_requested:
        try:
            for job in jobs:
                if stop_requested():
                    break
                waiting[pool.submit(job, ended.put)] = job
            while waiting or (stop_requested() and reason is None):
                if stop_requested() and reason is None:
                    halt(Interrupted("interrupted"))
                if time.monotonic() > looked + TICK and ended.empty():
                    looked = time.monotonic()
                    if reason is None:
                        pool.check()
                    tick()
                try:
                    future = ended.get(timeout=TICK)
                except Empty:
                    continue
                job = waiting.pop(future)
                outcome = _outcome(pool, future, stopping=reason is not None)
                if outcome.status == "stopped":
                    if reason is None and not stop_requested():  # somebody ended this one alone: it goes on from its checkpoint
                        waiting[pool.submit(job, ended.put)] = job
                    continue
                try:
                    over(job, outcome)
                except OSError as error:
                    if reason is None:
                        halt(error)
            tick()
        finally:
            pool.close()
        if stop_requested() and reason is None:  # after the last run, but before whatever is to follow
            reason = Interrupted("interrupted")
    if reason is not None:
        raise reason


def _outcome(pool: Pool, future: Any, stopping: bool) -> Outcome:
    try:
        return pool.outcome(future)
    except (PoolLost, CancelledError):
        if stopping:
            return Outcome("stopped")
        raise
    except Exception as error:  # of the pool, or of the way there and back: `work` itself raises nothing
        return Outcome("failed", cause=f"{type(error).__name__}: {error}")
