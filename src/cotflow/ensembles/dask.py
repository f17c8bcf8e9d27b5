"""Dask: workers on a cluster, reached through a scheduler that the caller runs, or started through Slurm."""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

from distributed import Client, Future

from ..errors import PoolLost
from .jobs import Job, work


class Dask:
    """Jobs as tasks of a Dask client. Workers need no shared file system: runs travel back."""

    shares_files = False
    deaths = 0

    def __init__(self, client: Client) -> None:
        if client.asynchronous:
            raise ValueError("executor is an asynchronous Dask client; allowed: a synchronous one")
        self.client = client
        self._futures: dict[str, Future[Any]] = {}
        self._width, self._counted = 0, -math.inf

    def submit(self, job: Job, over: Callable[[Any], None]) -> Future[Any]:
        key = f"cotflow-{job.point}-{job.seed}-{uuid.uuid4().hex[:8]}"
        future = self.client.submit(work, job, key=key, pure=False)
        future.add_done_callback(over)
        self._futures[key] = future
        return future

    def outcome(self, future: Future[Any]) -> Any:
        try:
            return future.result()
        except (CancelledError, OSError) as error:
            reason = getattr(error, "reason", None) or error
            raise PoolLost(f"the Dask scheduler was lost ({reason})") from None
        finally:
            self._futures.pop(str(future.key), None)

    def running(self) -> int:
        if time.monotonic() > self._counted + 5.0 and self._reachable():
            self._counted = time.monotonic()
            counts: Any = self.client.nthreads()
            self._width = sum(counts.values())
        return min(self._width, len(self._futures))

    def check(self) -> None:
        """A scheduler that closes in good order cancels no future, so the line to it is looked at."""
        if not self._reachable():
            raise PoolLost("the Dask scheduler was lost")

    def stop(self) -> None:
        """Drop what has not begun; Dask cannot interrupt a task that runs."""
        self.close()

    def close(self) -> None:
        """Release what is left; the client is the caller's."""
        if self._futures and self._reachable():
            self.client.cancel(list(self._futures.values()))
        self._futures.clear()

    def _reachable(self) -> bool:
        line = self.client.scheduler_comm
        return self.client.status == "running" and line is not None and line.comm is not None and not line.comm.closed()


def connect(address: str, timeout: float = 10.0) -> Client:
    """A client of the scheduler at `address`, or one sentence why there is none; Dask's own log falls silent."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        return Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:
        raise PoolLost(f"no Dask scheduler answers at {address} ({error})") from None


def slurm(
    jobs: int = 1,
    cores: int = 1,
    memory: str = "4GB",
    walltime: str = "01:00:00",
    queue: str | None = None,
    account: str | None = None,
    directives: list[str] | None = None,
    **cluster: Any,
) -> Any:
    """A dask-jobqueue cluster of `jobs` Slurm jobs, each with `cores` worker processes of one thread; its scheduler runs here."""
    from dask_jobqueue.slurm import SLURMCluster

    made = SLURMCluster(
        cores=cores,
        processes=cores,
        memory=memory,
        walltime=walltime,
        queue=queue,
        account=account,
        job_extra_directives=directives or [],
        **cluster,
    )
    made.scale(jobs=jobs)
    return made
