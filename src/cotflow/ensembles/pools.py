"""What can run jobs: processes of this machine, any executor of the caller's, or a Dask client; one face for all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from numbers import Integral
from typing import Any, Protocol, runtime_checkable

from ..errors import PoolLost
from ..gradients.threads import cores
from .jobs import Bell, Job, work_unless
from .processes import Processes


@runtime_checkable
class Pool(Protocol):
    """Runs jobs; calls back with a future when one is over."""

    shares_files: bool
    """Whether workers see the caller's files, so that they can keep checkpoints and records there."""

    @property
    def deaths(self) -> int:
        """How many workers died and were replaced."""
        ...

    @property
    def remark(self) -> str:
        """What whoever watches should know, as that no worker is connected; mostly nothing."""
        ...

    def submit(self, job: Job, over: Callable[[Any], None]) -> Any:
        """Begin a job when there is room; call over(future) when it has ended."""
        ...

    def outcome(self, future: Any) -> Any:
        """What `work` returned; `PoolLost` where no job can come to an end any more, other exceptions where this one cannot."""
        ...

    def running(self) -> int:
        """How many jobs are with a worker, as far as that is known."""
        ...

    def check(self) -> None:
        """Raise `PoolLost` if the workers can no longer be reached."""
        ...

    def stop(self) -> None:
        """Ask running jobs to end in good order, and begin no others."""
        ...

    def close(self) -> None:
        """Give back what was taken."""
        ...


class Given:
    """An executor of the caller's, with the interface of `concurrent.futures`; it is left running."""

    deaths = 0
    remark = ""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.shares_files = isinstance(executor, ThreadPoolExecutor | ProcessPoolExecutor)
        self._futures: set[Future[Any]] = set()
        self._bell = Bell()

    def submit(self, job: Job, over: Callable[[Any], None]) -> Future[Any]:
        try:
            future = self.executor.submit(work_unless, self._bell, job)
        except BrokenExecutor as error:
            raise PoolLost(f"the executor is broken ({error})") from None
        except Exception as error:  # whatever an executor raises that was shut down, or whose connection is gone
            raise PoolLost(f"the executor takes no more runs ({error or type(error).__name__})") from None
        future.add_done_callback(over)
        self._futures.add(future)
        return future

    def outcome(self, future: Future[Any]) -> Any:
        self._futures.discard(future)
        try:
            return future.result()
        except BrokenExecutor as error:
            raise PoolLost(f"the executor broke ({error})") from None
        except CancelledError:
            raise PoolLost("the executor dropped its runs (was it shut down?)") from None

    def running(self) -> int:
        return sum(future.running() for future in self._futures)

    def check(self) -> None:
        """An executor has no other way to tell than through its futures."""

    def stop(self) -> None:
        self._bell.ring()
        for future in self._futures:
            future.cancel()

    def close(self) -> None:
        self.stop()


class Local(Given):
    """Processes of this machine, started here and ended here."""

    def __init__(self, workers: int | None = None) -> None:
        self.executor = Processes(check_workers(workers) or cores())
        super().__init__(self.executor)
        self.shares_files = True

    @property
    def deaths(self) -> int:  # type: ignore[override]
        return self.executor.deaths

    def stop(self) -> None:
        super().stop()
        self.executor.stop()

    def close(self) -> None:
        self.stop()
        self.executor.shutdown(cancel_futures=True)


def check_workers(workers: int | None) -> int | None:
    """Pass on a number of processes, or None for as many as cores."""
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, Integral) or workers < 1):
        raise ValueError(f"workers = {workers!r} is not allowed; allowed: whole numbers from 1")
    return None if workers is None else int(workers)


def as_pool(executor: Any = None, workers: int | None = None) -> Pool:
    """The pool for what a caller gives as `executor`."""
    if executor is None:
        return Local(workers)
    if workers is not None:
        raise ValueError("workers is for the processes of this machine; an executor has its own")
    if isinstance(executor, type) or not hasattr(executor, "submit"):
        raise ValueError(
            f"executor = {executor!r} cannot run anything; allowed: an executor as of concurrent.futures, such as "
            "ThreadPoolExecutor(2), or a Dask client, such as distributed.Client(address)"
        )
    if isinstance(executor, Pool):
        return executor
    client = getattr(sys.modules.get("distributed"), "Client", ())  # whoever has one has imported it
    if isinstance(executor, client):
        from .dask import Dask

        return Dask(executor)
    return Given(executor)
