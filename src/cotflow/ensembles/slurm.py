"""Slurm: workers as jobs, submitted through dask-jobqueue from here, watched, and replaced when they end before the work does."""

from __future__ import annotations

import logging
import math
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dask_jobqueue.slurm import SLURMCluster, SLURMJob
from distributed import Client
from distributed.deploy.spec import ProcessInterface

from ..errors import PoolLost
from .dask import Dask
from .jobs import Job as Run

#: Seconds without a worker after which a job that had one has ended; a worker that died alone is back before.
GRACE = 10.0
#: Seconds between questions to squeue.
EVERY = 10.0
#: How many jobs may end, for every one that is wanted, before a worker of any of them connects.
ATTEMPTS = 3


class Job(SLURMJob):
    """A Slurm job that notes what `sbatch` complained of, where dask-jobqueue would raise it and nobody catch it."""

    faults: list[str]

    async def start(self) -> None:
        try:
            await super().start()
        except (OSError, RuntimeError, ValueError) as error:
            self.faults.append(" ".join(str(error).rpartition("stderr:\n")[2].split()) or str(error))
            await ProcessInterface.start(self)

    async def close(self) -> None:
        """Cancel the job, and be closed: the cluster looks at that of every job that is still in memory."""
        await super().close()
        await ProcessInterface.close(self)

    @classmethod
    async def _close_job(cls, job_id: str | None, cancel_command: str) -> None:
        with suppress(OSError):
            await super()._close_job(job_id, cancel_command)


def slurm(
    cores: int = 1,
    memory: str = "4GB",
    walltime: str = "01:00:00",
    queue: str | None = None,
    account: str | None = None,
    directives: list[str] | None = None,
    **cluster: Any,
) -> Any:
    """A dask-jobqueue cluster, as yet without jobs; each gets `cores` workers of one thread. Its scheduler runs here."""
    if shutil.which("sbatch") is None:
        raise PoolLost("there is no sbatch on the PATH; run this where Slurm jobs may be submitted from")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    return SLURMCluster(
        cores=cores,
        processes=cores,
        memory=memory,
        walltime=walltime,
        queue=queue,
        account=account,
        job_extra_directives=directives or [],
        job_cls=type("Job", (Job,), {"faults": []}),  # pyright: ignore[reportArgumentType]
        **cluster,
    )


class Slurm(Dask):
    """A Dask client whose workers are `jobs` Slurm jobs of a cluster; one that ends while runs wait is replaced."""

    def __init__(self, client: Client, cluster: Any, jobs: int = 1) -> None:
        super().__init__(client)
        self.cluster, self.jobs = cluster, jobs
        self._submitted: dict[str, float] = {}
        self._seen: dict[str, float] = {}
        self._fruitless = 0
        self._squeue: subprocess.Popen[str] | None = None
        self._known: set[str] | None = None
        self._told, self._inquired = -math.inf, -math.inf

    def submit(self, job: Run, over: Callable[[Any], None]) -> Any:
        """Begin a run when there is room; Slurm jobs are asked for as runs come that they can be used for."""
        future = super().submit(job, over)
        if self._useful() > len(self.cluster.worker_spec):
            self.cluster.scale(jobs=self._useful())
        return future

    def _useful(self) -> int:
        """How many Slurm jobs the runs that are left can use, of those that may be had."""
        return min(self.jobs, math.ceil(len(self._futures) / self.cluster._dummy_job.worker_processes))

    def check(self) -> None:
        """Look at the jobs: those that ended are replaced; where none can be had any more the pool is lost."""
        super().check()
        now, live = time.monotonic(), dict(self.cluster.workers)
        self._submitted |= {name: now for name in live if name not in self._submitted}
        if set(self.cluster.worker_spec) - set(self._submitted):  # sbatch is at it
            return
        faults = self.cluster.job_cls.faults
        if faults and not any(job.job_id for job in live.values()):
            raise PoolLost(f"sbatch did not take the jobs ({faults[0]})")
        self._ask_squeue(now)
        workers = {str(worker["name"]) for worker in dict(self.cluster.scheduler_info["workers"]).values()}
        for name in live:
            if any(worker == name or worker.startswith(f"{name}-") for worker in workers):
                self._seen[name], self._fruitless = now, 0
        ended = [name for name in list(self.cluster.worker_spec) if self._has_ended(name, live.get(name), now)]
        if ended:
            self._replace(ended)

    def _has_ended(self, name: str, job: Any, now: float) -> bool:
        if job is None:
            return True
        if job.job_id is None or self._seen.get(name) == now:
            return False
        unknown = self._known is not None and self._submitted[name] < self._told and job.job_id not in self._known
        return unknown or now > self._seen.get(name, math.inf) + GRACE

    def _replace(self, ended: list[str]) -> None:
        self._fruitless += sum(name not in self._seen for name in ended)
        if self._fruitless >= ATTEMPTS * self.jobs:
            raise PoolLost(f"{self._fruitless} Slurm jobs ended before a worker of theirs connected (their output says why)")
        for name in ended:
            del self.cluster.worker_spec[name]
        self.cluster.scale(jobs=max(len(self.cluster.worker_spec), self._useful()))

    def _ask_squeue(self, now: float) -> None:
        """Keep the ids of the jobs that Slurm knows, as squeue told them last; never wait for it."""
        if self._squeue is None and now > self._inquired + EVERY:
            self._inquired = now
            with suppress(OSError):  # without squeue a job is missed by its workers alone
                self._squeue = subprocess.Popen(
                    ["squeue", "--me", "--noheader", "--format=%A"],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    start_new_session=True,
                )
        elif self._squeue is not None and self._squeue.poll() is not None:
            said, _ = self._squeue.communicate()
            if self._squeue.returncode == 0:
                self._known, self._told = set(said.split()), self._inquired
            self._squeue = None
