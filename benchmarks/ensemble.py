"""How well an ensemble uses the machine: `python benchmarks/ensemble.py efficiency | dask | seeds [--preset main] [--seeds 16]`.

efficiency  seconds with one worker process and with several: T(1) / (n T(n)), start of the processes included
dask        seconds under a local Dask cluster of n worker processes against the seconds that the runs themselves take in it
seeds       seconds for that many seeds from an empty directory to loaded records, with the peak memory of a worker

Timings are of a whole command, so nothing else should be at work on the machine; `--repeats` shows how they scatter.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import xarray as xr

import cotflow as cf
from cotflow.gradients.threads import cores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("efficiency", "dask", "seeds"))
    parser.add_argument("--preset", default="main")
    parser.add_argument("--engine", default="leap")
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--workers", type=int, default=cores())
    parser.add_argument("--repeats", type=int, default=1)
    given = parser.parse_args()
    cfg = cf.Config.preset(given.preset)
    cf.simulate(cfg.replace(train_epochs=1, eval_every=1), engine="steps")  # compile before the clock runs
    {"efficiency": efficiency, "dask": dask, "seeds": seeds}[given.what](cfg, given)


def efficiency(cfg: cf.Config, given: argparse.Namespace) -> None:
    """One worker against several, in turn, so that a change in the machine's mood meets both."""
    ratios = []
    for repeat in range(given.repeats):
        one, _ = timed(cfg, given, workers=1)
        many, runs = timed(cfg, given, workers=given.workers)
        ratios.append(one / (given.workers * many))
        print(
            f"{repeat}: {given.seeds} seeds, 1 worker {one:.1f} s, {given.workers} workers {many:.1f} s, "
            f"{float(runs.wall_seconds.mean()):.2f} s a run, efficiency {ratios[-1]:.3f}",
            flush=True,
        )
    print(f"efficiency {spread(ratios)}")


def dask(cfg: cf.Config, given: argparse.Namespace) -> None:
    """What Dask adds: wall time of a warm cluster over the time that its workers spend in runs."""
    from distributed import Client, LocalCluster

    overheads = []
    local = LocalCluster(n_workers=given.workers, threads_per_worker=1, dashboard_address=":0")
    with local as cluster, Client(cluster) as client:
        cf.ensemble(cfg.replace(train_epochs=1, eval_every=1), range(2 * given.workers), engine="steps", executor=client)
        for repeat in range(given.repeats):
            seconds, runs = timed(cfg, given, executor=client)
            busy = float(runs.wall_seconds.sum()) / given.workers
            task = given.workers * (seconds - busy) / given.seeds
            overheads.append(seconds / busy - 1)
            print(
                f"{repeat}: {seconds:.1f} s, runs alone {busy:.1f} s, {1000 * task:.0f} ms more a task, "
                f"overhead {overheads[-1]:.3f}",
                flush=True,
            )
    print(f"overhead {spread(overheads)}")


def seeds(cfg: cf.Config, given: argparse.Namespace) -> None:
    """The whole ensemble, as a user waits for it."""
    for repeat in range(given.repeats):
        seconds, runs = timed(cfg, given, workers=given.workers)
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        last = float(runs.rollout_accuracy.sel(split="test").isel(epoch=-1).mean())
        print(
            f"{repeat}: {runs.sizes['seed']} seeds, {runs.sizes['epoch']} evaluations each, in {seconds:.1f} s; "
            f"{float(runs.gradients.mean()):.0f} gradients and {float(runs.wall_seconds.mean()):.2f} s a run; "
            f"largest worker {memory:.0f} MB; final rollout accuracy {last:.4f}"
        )


def timed(cfg: cf.Config, given: argparse.Namespace, **where: Any) -> tuple[float, xr.Dataset]:
    """Seconds of an ensemble in an empty directory, and its runs."""
    with tempfile.TemporaryDirectory() as out:
        start = time.perf_counter()
        runs = cf.ensemble(cfg, range(given.seeds), engine=given.engine, out=out, progress=False, **where)
        return time.perf_counter() - start, runs


def spread(values: list[float], digits: Callable[[float], str] = "{:.3f}".format) -> str:
    """Median and range."""
    return f"median {digits(statistics.median(values))} of {len(values)}, {digits(min(values))} to {digits(max(values))}"


if __name__ == "__main__":
    main()
