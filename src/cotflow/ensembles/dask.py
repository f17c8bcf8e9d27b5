"""Dask: workers on a cluster, reached through a scheduler that the caller runs."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from concurrent.futures import Future as Answer
from typing import Any

from distributed import Client, Future

from ..errors import PoolLost
from .jobs import Job, work

#: Seconds between questions to the scheduler, and those after which one that has no answer is told.
EVERY, LATE = 2.0, 10.0


class Dask:
    """Jobs as tasks of a Dask client. Workers need no shared file system: runs travel back."""

    shares_files = False
    deaths = 0

    def __init__(self, client: Client) -> None:
        if client.asynchronous:
            raise ValueError("executor is an asynchronous Dask client; allowed: a synchronous one")
        self.client = client
        self._futures: dict[str, Future[Any]] = {}
        self._results: dict[str, Answer[Any]] = {}
        self._width, self._asked = 0, 0.0
        self._question: Answer[dict[str, int]] | None = None
        self._answered = self._stopped = False

    def submit(self, job: Job, over: Callable[[Any], None]) -> Future[Any]:
        key = f"cotflow-{job.point}-{job.seed}-{uuid.uuid4().hex[:8]}"
        self._require_line()
        try:
            future = self.client.submit(work, job, key=key, pure=False)
        except (OSError, RuntimeError) as error:
            raise PoolLost(f"the Dask scheduler was lost ({error})") from None
        self._futures[key] = future
        future.add_done_callback(lambda ended: self._fetch(ended, over))
        return future

    def _fetch(self, future: Future[Any], over: Callable[[Any], None]) -> None:
        """Bring a result here, and only then say that its job is over: to ask for it is to wait, and a scheduler may hang."""

        async def gather() -> Any:
            arrived: Any = self.client.gather(future, asynchronous=True)
            return await arrived

        result = self._results[str(future.key)] = self._begin(gather())
        result.add_done_callback(lambda _: over(future))

    def _begin(self, question: Coroutine[Any, Any, Any]) -> Answer[Any]:
        """Ask something where the client lives; nobody waits for the answer."""
        loop: Any = self.client.loop
        return asyncio.run_coroutine_threadsafe(question, loop.asyncio_loop)

    def outcome(self, future: Future[Any]) -> Any:
        try:
            return self._results.pop(str(future.key)).result()
        except (CancelledError, OSError) as error:
            reason = getattr(error, "reason", None) or error
            raise PoolLost(f"the Dask scheduler was lost ({reason})") from None
        finally:
            self._futures.pop(str(future.key), None)

    def running(self) -> int:
        self._count()
        return min(self._width, len(self._futures))

    @property
    def remark(self) -> str:
        if self._question and not self._question.done() and time.monotonic() > self._asked + LATE:
            return "the scheduler does not answer"
        return "no worker is connected" if self._answered and not self._width else ""

    def _count(self) -> None:
        """Take the answer to the last question for workers, and ask again; never wait, as a scheduler may hang."""
        if self._question is not None and self._question.done():
            try:
                self._width, self._answered = sum(self._question.result().values()), True
            except (OSError, CancelledError) as error:
                raise PoolLost(f"the Dask scheduler was lost ({error})") from None
            if time.monotonic() > self._asked + EVERY:
                self._question = None
        if self._question is None and not self._stopped and self._reachable():
            scheduler: Any = self.client.scheduler
            self._question = self._begin(scheduler.ncores(workers=None))
            self._asked = time.monotonic()

    def check(self) -> None:
        """A scheduler that closes in good order cancels no future, so the line to it is looked at."""
        self._require_line()

    def stop(self) -> None:
        """Drop every run; Dask cannot interrupt one that is at work, and nobody waits for it."""
        self.close()

    def close(self) -> None:
        """Release what is left, and ask nothing more; the client is the caller's."""
        self._stopped = True
        if self._question is not None:
            self._question.cancel()
            self._question = None
        for result in list(self._results.values()):
            result.cancel()
        if self._futures and self._reachable():
            self.client.cancel(list(self._futures.values()))
        self._futures.clear()

    def _require_line(self) -> None:
        if not self._reachable():
            raise PoolLost(f"the Dask scheduler was lost (the client is {self.client.status})")

    def _reachable(self) -> bool:
        line = self.client.scheduler_comm
        return self.client.status == "running" and line is not None and line.comm is not None and not line.comm.closed()


def connect(address: str, timeout: float = 10.0) -> Client:
    """A client of the scheduler at `address`, or one sentence why there is none; Dask's own log falls silent."""
    if not re.fullmatch(r"(\w+://)?[^/]+:\d+", address):
        raise ValueError(f"scheduler = {address!r} is not allowed; allowed: an address with its port, as tcp://host:8786")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        return Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:
        raise PoolLost(f"no Dask scheduler answers at {address} ({error})") from None
