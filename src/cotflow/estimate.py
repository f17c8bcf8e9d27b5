"""How long will a reproduction take? From what is missing, and one gradient and one evaluation timed here and now."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .config import Config
from .experiments import FEW, Experiment
from .figures.make import drawable, theories
from .figures.words import count
from .gradients import backend
from .observables import observe
from .params import Params
from .results import SEEDED, SNAPSHOTS, THEORY, solution_path
from .status import duration
from .task import Task

#: What a run of engine leap is taken to need; the record says what it did need.
GRADIENTS = 130
#: What a solution of tier 1 or 2, and a figure, are taken to need, in seconds of one core; tier 3 takes as long as a simulation.
SOLUTION, FIGURE = 0.5, 2.0


def estimate(plan: Sequence[Experiment], out: Path, workers: int) -> str:
    """The time that training takes, and the time of all that follows it, in a sentence."""
    missing = [(each, each.points[point], len(seeds)) for each in plan for point, seeds in each.missing(out).items()]
    runs = sum(number for *_, number in missing)
    first = plan[0].points[""]
    gradient, evaluation = timed(first, plan[0].backend)

    def one(cfg: Config, engine: str) -> float:
        gradients = cfg.train_epochs if engine == "steps" else GRADIENTS
        return gradients * gradient * _size(cfg) / _size(first) + len(cfg.eval_epochs) * evaluation

    names = drawable({each.name for each in plan} | {SNAPSHOTS})
    solving = sum(one(cfg, "leap") if tier.startswith("column") else SOLUTION for cfg, tier in _unsolved(plan, names, out))
    rest = f"theories, figures and report about {duration((solving + FIGURE * len(names)) / workers)}"
    if runs == 0:
        return f"all records are in {out}; {rest} on {count(workers, 'core')}"
    seconds = sum(one(cfg, each.engine) * number for each, cfg, number in missing) / workers
    return (
        f"{count(runs, 'run')} to train: one gradient takes {1e3 * gradient:.1f} ms here, one evaluation "
        f"{1e3 * evaluation:.1f} ms, so about {duration(seconds)} on {count(workers, 'core')}; {rest} more"
    )


def _unsolved(plan: Sequence[Experiment], names: Sequence[str], out: Path) -> Iterator[tuple[Config, str]]:
    """Configuration and tier of every theory that some figures draw and that has no file."""
    for name, tier in theories(names):
        for each in (each for each in plan if each.name == name):
            for point, cfg in each.points.items():
                for seed in each.seeds[: FEW.get(tier)] if tier in SEEDED else [None]:
                    if not solution_path(out / THEORY, f"{name}/{point}" if point else name, tier, seed).exists():
                        yield cfg, tier


def timed(cfg: Config, name: str = "fused") -> tuple[float, float]:
    """Seconds of one gradient and of one evaluation by a backend, the fused one on one thread, compiling left out."""
    task, params, made = Task(cfg, 0), Params.initial(cfg, 0), backend(name, 1 if name == "fused" else None)

    def least(call: Callable[[], object]) -> float:
        call()
        times = []
        for _ in range(3):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        return min(times)

    return (
        least(lambda: made.loss_and_gradient(cfg, params, task.train)),
        least(lambda: observe(cfg, task, params, made, 0.0)),
    )


def _size(cfg: Config) -> int:
    return cfg.n_train_seq * cfg.L * cfg.N
